package shell

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// A HostKey signs for servers inside: clients there trust it for every name, and
// it signs for a name when a rule reads the connections to that.
type HostKey struct {
	authority ssh.Signer
	leaf      ssh.Signer
	seeds     []byte
}

// NewHostKey makes one, whose keys are in this process's memory only.
func NewHostKey() (*HostKey, error) {
	seeds := make([]byte, 2*ed25519.SeedSize)
	_, _ = rand.Read(seeds) // never fails (crypto/rand)
	return RestoreHostKey(seeds)
}

// Marshal gives the seeds of its keys, for whoever keeps them as safe.
func (k *HostKey) Marshal() []byte { return slices.Clone(k.seeds) }

// RestoreHostKey is the key that Marshal wrote.
func RestoreHostKey(seeds []byte) (*HostKey, error) {
	if len(seeds) != 2*ed25519.SeedSize {
		return nil, errors.New("read the session's host key: it has another length")
	}
	k := &HostKey{seeds: slices.Clone(seeds)}
	for i, s := range []*ssh.Signer{&k.authority, &k.leaf} {
		var err error
		if *s, err = ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seeds[i*ed25519.SeedSize:][:ed25519.SeedSize])); err != nil {
			return nil, fmt.Errorf("read the session's host key: %w", err)
		}
	}
	return k, nil
}

// KnownHosts is the line by which clients inside trust it. A server that is not
// read has no such certificate, and is what it was to them.
func (k *HostKey) KnownHosts() string {
	return "@cert-authority * " + string(ssh.MarshalAuthorizedKey(k.authority.PublicKey()))
}

// Signer proves that a server is host.
func (k *HostKey) Signer(host string, now time.Time) (ssh.Signer, error) {
	cert := &ssh.Certificate{
		Key: k.leaf.PublicKey(), CertType: ssh.HostCert, KeyId: host, ValidPrincipals: []string{host},
		ValidAfter: uint64(now.Add(-time.Hour).Unix()), ValidBefore: uint64(now.Add(24 * time.Hour).Unix()), // after 1970
	}
	if err := cert.SignCert(rand.Reader, k.authority); err != nil {
		return nil, fmt.Errorf("sign the host key for %s: %w", host, err)
	}
	signer, err := ssh.NewCertSigner(cert, k.leaf)
	if err != nil {
		return nil, fmt.Errorf("sign the host key for %s: %w", host, err)
	}
	return signer, nil
}

// ReadHostKey reads a server's public key as known_hosts and ssh-keyscan write it,
// less the name: ssh-ed25519 AAAA….
func ReadHostKey(text string) (ssh.PublicKey, error) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil || len(options) > 0 || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("a host key is a type with the key, such as ssh-ed25519 AAAA…")
	}
	return key, nil
}

// A KeyError is a server whose key is not one that is expected.
type KeyError struct {
	Host    string
	Changed bool // another one is expected
	Key     string
}

func (e *KeyError) Error() string {
	if e.Changed {
		return "the host key of " + e.Host + " is not the one that is known: somebody may be in between, or the server has " +
			"a new key"
	}
	return "the host key of " + e.Host + " is not known on the host"
}

// Expected is what a server's key must be: one of pins or, without any, what the
// files of known hosts say. algorithms are those that a server is to prove itself
// by; nil for any.
func Expected(host string, files, pins []string) (check ssh.HostKeyCallback, algorithms []string, err error) {
	if len(pins) > 0 {
		return expectPins(host, pins)
	}
	var there []string
	for _, f := range files {
		if _, err := os.Stat(f); err == nil {
			there = append(there, f)
		}
	}
	known, err := knownhosts.New(there...)
	if err != nil {
		return nil, nil, fmt.Errorf("read known hosts: %w", err)
	}
	return func(name string, remote net.Addr, key ssh.PublicKey) error {
		err := known(name, remote, key)
		var wrong *knownhosts.KeyError
		var revoked *knownhosts.RevokedError
		switch {
		case errors.As(err, &revoked):
			return &KeyError{Host: host, Changed: true, Key: line(key)}
		case errors.As(err, &wrong):
			return &KeyError{Host: host, Changed: len(wrong.Want) > 0, Key: line(key)}
		case err != nil: // a certificate that no known authority signed
			return &KeyError{Host: host, Key: line(key)}
		}
		return nil
	}, algorithmsOf(wanted(known, host)), nil
}

func expectPins(host string, pins []string) (ssh.HostKeyCallback, []string, error) {
	var keys []ssh.PublicKey
	for _, p := range pins {
		key, err := ReadHostKey(p)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, key)
	}
	return func(_ string, _ net.Addr, key ssh.PublicKey) error {
		for _, k := range keys {
			if line(k) == line(key) {
				return nil
			}
		}
		return &KeyError{Host: host, Changed: true, Key: line(key)}
	}, algorithmsOf(keys), nil
}

// wanted are the keys that known hosts has for a host: what it would have rather
// than one that no one has.
func wanted(known ssh.HostKeyCallback, host string) []ssh.PublicKey {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil
	}
	unknown, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil
	}
	var wrong *knownhosts.KeyError
	if !errors.As(known(host, &net.TCPAddr{}, unknown), &wrong) {
		return nil
	}
	var keys []ssh.PublicKey
	for _, w := range wrong.Want {
		keys = append(keys, w.Key)
	}
	return keys
}

func algorithmsOf(keys []ssh.PublicKey) []string {
	var out []string
	for _, k := range keys {
		if k.Type() == ssh.KeyAlgoRSA { // its signatures have other names (RFC 8332)
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		out = append(out, k.Type())
	}
	return out
}

// line is a key as a person writes it down.
func line(k ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k))) }
