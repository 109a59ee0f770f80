package sshkey_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"cloister/host/resolve"
	"cloister/host/taint"
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
		"~/none": "no such file", "~": "not a whole path", "~/.": "is no file", "agent": "SSH_AUTH_SOCK named no agent",
	} {
		signers, closing, err := sshkey.Open(t.Context(), hostOf(t), name, home, "")
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

// hostOf is this machine with places that a cloister could write.
func hostOf(t *testing.T, tainted ...string) *resolve.Resolver {
	t.Helper()
	places, err := taint.Read(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tainted {
		if err := places.Enter(taint.Place{Kind: taint.Project, Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	return resolve.New(places, os.Getuid())
}

// Where a cloister could write, no key is read and no agent is asked: what lies there, or
// where it leads, a payload may have chosen.
func TestKeysOfAPayload(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	key, _ := newKey(t)
	project := filepath.Join(home, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	writeKey(t, filepath.Join(home, "mine"), key, "", 0o600)
	writeKey(t, filepath.Join(project, "laid"), key, "", 0o600)
	if err := os.Symlink("../mine", filepath.Join(project, "led")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"~/project/laid", "~/project/led"} {
		if _, closing, err := sshkey.Open(t.Context(), hostOf(t), name, home, ""); err != nil {
			t.Errorf("%s, where nothing was written: %v", name, err)
		} else {
			closing()
		}
		_, _, err := sshkey.Open(t.Context(), hostOf(t, project), name, home, "")
		if _, foreign := errors.AsType[*resolve.Foreign](err); !foreign {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, closing, err := sshkey.Open(t.Context(), hostOf(t, project), "~/mine", home, ""); err != nil {
		t.Error(err)
	} else {
		closing()
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
		signers, closing, err := sshkey.Open(t.Context(), hostOf(t), name, dir, socket)
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
	if _, _, err := sshkey.Open(t.Context(), hostOf(t), "agent", dir, filepath.Join(dir, "none")); err == nil {
		t.Error("an agent that is not there")
	}
}

// A guard is asked before each signature, by whatever algorithm, and knows those that
// the signer knows.
func TestGuard(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ssh.NewSignerFromKey(rsaKey)
	if err != nil {
		t.Fatal(err)
	}
	some, err := ssh.NewSignerWithAlgorithms(whole.(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSASHA512})
	if err != nil {
		t.Fatal(err)
	}
	refusal := errors.New("no")
	for name, s := range map[string]ssh.Signer{"all": whole, "one": some, "plain": struct{ ssh.Signer }{whole}} {
		asked, deny := 0, false
		g := sshkey.Guard(s, func(k ssh.PublicKey) error {
			if asked++; deny || !bytes.Equal(k.Marshal(), s.PublicKey().Marshal()) {
				return refusal
			}
			return nil
		})
		_, had := s.(ssh.MultiAlgorithmSigner)
		if list, is := g.(ssh.MultiAlgorithmSigner); is != had || is && !slices.Equal(list.Algorithms(), s.(ssh.MultiAlgorithmSigner).Algorithms()) {
			t.Errorf("%s: other algorithms", name)
		}
		text := []byte("a text")
		for _, deny = range []bool{false, true} {
			sig, err := g.Sign(rand.Reader, text)
			if deny && !errors.Is(err, refusal) || !deny && name != "one" && (err != nil || s.PublicKey().Verify(text, sig) != nil) {
				t.Errorf("%s: denied %t: %v", name, deny, err)
			}
			if by, is := g.(ssh.AlgorithmSigner); is {
				sig, err = by.SignWithAlgorithm(rand.Reader, text, ssh.KeyAlgoRSASHA512)
				if deny && !errors.Is(err, refusal) || !deny && (err != nil || s.PublicKey().Verify(text, sig) != nil) {
					t.Errorf("%s: by algorithm, denied %t: %v", name, deny, err)
				}
			} else if name != "plain" {
				t.Errorf("%s: knows one algorithm only", name)
			}
		}
		if asked < 2 {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
}
