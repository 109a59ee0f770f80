package shell

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestParseGit(t *testing.T) {
	for _, tt := range []struct {
		command, repository string
		push                bool
	}{
		{"git-upload-pack 'acme/tool.git'", "acme/tool.git", false},
		{"git-receive-pack '/srv/git/tool'", "/srv/git/tool", true},
		{"git receive-pack 'a'", "a", true},
		{"git-upload-archive 'a/b'", "a/b", false},
		{"git-upload-pack acme/tool", "acme/tool", false},
		{"git-upload-pack '~ada/tool'", "~ada/tool", false},
		{`git-upload-pack 'it'\!'s'`, "it!s", false},
		{"git-upload-pack", "", false},
		{"git-upload-pack ''", "", false},
		{"git-upload-pack 'a' 'b'", "", false},
		{"git-upload-pack 'a'; id", "", false},
		{"git-upload-pack 'a", "", false},
		{"git-upload-pack a b", "", false},
		{"git-upload-pack $HOME", "", false},
		{"git-upload-pack '../x'", "", false},
		{"git-upload-pack 'a/../b'", "", false},
		{"git-upload-pack 'a//b'", "", false},
		{"git-upload-pack 'a%2fb'", "", false},
		{"git-upload-pack '--exec=x'", "", false},
		{"git-upload-pack 'a\nb'", "", false},
		{"git-upload-pack  'a'", "", false},
		{" git-upload-pack 'a'", "", false},
		{"git-lfs-authenticate a download", "", false},
		{"git-shell -c x", "", false},
		{"/usr/bin/git-upload-pack 'a'", "", false},
	} {
		g, ok := ParseGit(tt.command)
		if g.Repository != tt.repository || g.Push != tt.push || ok != (tt.repository != "") {
			t.Errorf("%q: %+v %t", tt.command, g, ok)
		}
	}
}

// What is read of git's command is one path, which quoted again is the command.
func FuzzParseGit(f *testing.F) {
	for _, s := range []string{"git-upload-pack 'acme/tool.git'", `git-receive-pack 'a'\''b'`, "git upload-pack x", "git-upload-pack 'a'\\!'b'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, command string) {
		g, ok := ParseGit(command)
		if !ok {
			return
		}
		if g.Repository == "" || strings.ContainsAny(g.Repository, " \t\n'\"$`\\;|&<>()") || strings.Contains("/"+g.Repository+"/", "/../") {
			t.Errorf("%q: %q", command, g.Repository)
		}
	})
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// A server is who is known, or nobody.
func TestExpected(t *testing.T) {
	key, other := newKey(t).PublicKey(), newKey(t).PublicKey()
	file := filepath.Join(t.TempDir(), "known_hosts")
	text := knownhosts.Line([]string{"one.test"}, key) + "\n" + knownhosts.Line([]string{knownhosts.HashHostname("[two.test]:2222")}, key) + "\n@revoked * " + line(other) + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, host string
		pins       []string
		key        ssh.PublicKey
		good       bool
		changed    bool
	}{
		{name: "known", host: "one.test:22", key: key, good: true},
		{name: "hashed, of a port", host: "two.test:2222", key: key, good: true},
		{name: "another port", host: "one.test:2222", key: key},
		{name: "unknown", host: "three.test:22", key: key},
		{name: "changed", host: "one.test:22", key: newKey(t).PublicKey(), changed: true},
		{name: "revoked", host: "three.test:22", key: other, changed: true},
		{name: "pinned", host: "three.test:22", pins: []string{line(key) + " a comment"}, key: key, good: true},
		{name: "pinned, not known", host: "one.test:22", pins: []string{line(other)}, key: key, changed: true},
	} {
		check, _, err := Expected(tt.host, []string{file, file + ".none"}, tt.pins)
		if err != nil {
			t.Fatal(err)
		}
		err = check(tt.host, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}, tt.key)
		wrong, is := errors.AsType[*KeyError](err)
		if (err == nil) != tt.good || err != nil && (!is || wrong.Changed != tt.changed || wrong.Key != line(tt.key)) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, algorithms, err := Expected("one.test:22", []string{file}, nil); err != nil || len(algorithms) != 1 || algorithms[0] != ssh.KeyAlgoED25519 {
		t.Errorf("algorithms %v, %v", algorithms, err)
	}
	for _, bad := range []string{"", "ssh-ed25519", "SHA256:abc", "ssh-ed25519 AAAA", line(key) + "\n" + line(other)} {
		if _, err := ReadHostKey(bad); err == nil {
			t.Errorf("%q is a host key", bad)
		}
	}
}

// The session's key stands for the name that it was asked for, and no other.
func TestHostKey(t *testing.T) {
	k, err := NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(file, []byte(k.KnownHosts()), 0o600); err != nil {
		t.Fatal(err)
	}
	known, err := knownhosts.New(file)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := k.Signer("git.test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	at := &net.TCPAddr{IP: net.IPv4(198, 18, 0, 9), Port: 22}
	if err := known("git.test:22", at, signer.PublicKey()); err != nil {
		t.Errorf("not trusted: %v", err)
	}
	if err := known("other.test:22", at, signer.PublicKey()); err == nil {
		t.Error("trusted for another name")
	}
	if err := known("git.test:22", at, newKey(t).PublicKey()); err == nil {
		t.Error("a plain key is trusted")
	}
}
