package sshkey_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"cloister/secret/sshkey"
)

func newKey(t *testing.T) (ed25519.PrivateKey, ssh.PublicKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, signer.PublicKey()
}

func writeKey(t *testing.T, path string, key ed25519.PrivateKey, passphrase string, mode os.FileMode) {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "a test")
	if passphrase != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "a test", []byte(passphrase))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), mode); err != nil {
		t.Fatal(err)
	}
}

func TestFiles(t *testing.T) {
	home := t.TempDir()
	key, public := newKey(t)
	writeKey(t, filepath.Join(home, "good"), key, "", 0o600)
	writeKey(t, filepath.Join(home, "open"), key, "", 0o644)
	writeKey(t, filepath.Join(home, "locked"), key, "words", 0o600)
	if err := os.WriteFile(filepath.Join(home, "public"), ssh.MarshalAuthorizedKey(public), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"~/good": "", filepath.Join(home, "good"): "", "~/open": "can be read by others", "~/locked": "has a passphrase", "~/public": "no private key",
		"~/none": "no such file", "~": "no such file", "~/.": "is no file", "agent": "SSH_AUTH_SOCK named no agent",
	} {
		signers, closing, err := sshkey.Open(t.Context(), name, home, "")
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		closing()
		if want != "" || len(signers) != 1 || string(signers[0].PublicKey().Marshal()) != string(public.Marshal()) {
			t.Errorf("%s: %d signers", name, len(signers))
		}
	}
}

func TestAgent(t *testing.T) {
	dir, err := os.MkdirTemp("", "sk") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ring := agent.NewKeyring()
	one, public := newKey(t)
	two, _ := newKey(t)
	for comment, key := range map[string]ed25519.PrivateKey{"one": one, "two": two} {
		if err := ring.Add(agent.AddedKey{PrivateKey: &key, Comment: comment}); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "agent")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); _ = agent.ServeAgent(ring, c) })
		}
	})
	t.Cleanup(func() { ln.Close(); all.Wait() })
	for name, want := range map[string]int{
		"agent": 2, "agent:one": 1, "agent:" + ssh.FingerprintSHA256(public): 1, socket: 2, "agent:three": 0,
	} {
		signers, closing, err := sshkey.Open(t.Context(), name, dir, socket)
		if (err == nil) != (want > 0) || len(signers) != want {
			t.Errorf("%s: %d signers, %v", name, len(signers), err)
		}
		if err != nil {
			continue
		}
		text := []byte("text")
		if s, err := signers[0].Sign(rand.Reader, text); err != nil || signers[0].PublicKey().Verify(text, s) != nil {
			t.Errorf("%s: does not sign: %v", name, err)
		}
		closing()
	}
	if _, _, err := sshkey.Open(t.Context(), "agent", dir, filepath.Join(dir, "none")); err == nil {
		t.Error("an agent that is not there")
	}
}
