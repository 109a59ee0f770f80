// Package mint makes the certificates with which inspected connections are
// opened.
//
// Promise: an authority lives for one session, its key is in this process's
// memory and wherever the caller of Marshal keeps it, and a leaf names one host, for a day at most. The leaves that
// are kept are bounded.
//
// It does not decide which connection is opened, and knows nothing of upstream
// certificates.
//
// Most readers want Supply.Take and Authority.Config.
package mint

import (
	"container/list"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"sync"
	"time"
)

const (
	// lifetime is longer than any session is kept; the key dies with the session.
	lifetime = 90 * 24 * time.Hour
	// early is for clocks inside a virtual machine, which may be behind, and for a
	// host whose clock is set back by an hour (RESILIENCE RS-16).
	early = 2 * time.Hour
	// leafLife and renewBefore keep a leaf that is handed out good for half a day.
	leafLife    = 24 * time.Hour
	renewBefore = leafLife / 2
	// most leaves that are kept: 5 KiB each with its settings.
	most = 1024
)

// An Authority signs for one session. It is safe for use by several goroutines.
type Authority struct {
	cert    *x509.Certificate
	der     []byte
	key     *ecdsa.PrivateKey
	leafKey *ecdsa.PrivateKey
	now     func() time.Time

	mu     sync.Mutex
	leaves map[string]*list.Element // of *leaf
	recent *list.List               // most recently used first
}

type leaf struct {
	id      string
	expires time.Time
	config  *tls.Config
	taken   bool
}

// New makes an authority.
func New(now func() time.Time) (*Authority, error) {
	a := &Authority{now: now, leaves: map[string]*list.Element{}, recent: list.New()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make session authority: %w", err)
	}
	// One key for all leaves: whoever had it could read no more than this
	// process does, and making one costs as much as signing.
	if a.leafKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("make session authority: %w", err)
	}
	at := now()
	template := &x509.Certificate{
		SerialNumber: serial(),
		Subject:      pkix.Name{CommonName: "Cloister session authority", Organization: []string{"Cloister"}},
		NotBefore:    at.Add(-early), NotAfter: at.Add(lifetime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	if a.der, err = x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key); err != nil {
		return nil, fmt.Errorf("make session authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(a.der); err != nil {
		return nil, fmt.Errorf("make session authority: %w", err)
	}
	return a, nil
}

// kept is an authority as it is written down.
type kept struct {
	Cert, Key, Leaf []byte
}

// Marshal gives the authority with its keys, for whoever keeps them as safe.
func (a *Authority) Marshal() ([]byte, error) {
	k, err := kept{Cert: a.der}, error(nil)
	if k.Key, err = x509.MarshalPKCS8PrivateKey(a.key); err == nil {
		k.Leaf, err = x509.MarshalPKCS8PrivateKey(a.leafKey)
	}
	if err != nil {
		return nil, fmt.Errorf("write session authority: %w", err)
	}
	return json.Marshal(k)
}

// Restore is the authority that Marshal wrote.
func Restore(text []byte) (*Authority, error) {
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("read session authority: %w", err)
	}
	a := &Authority{der: k.Cert, now: time.Now, leaves: map[string]*list.Element{}, recent: list.New()}
	key, err1 := x509.ParsePKCS8PrivateKey(k.Key)
	leaf, err2 := x509.ParsePKCS8PrivateKey(k.Leaf)
	cert, err3 := x509.ParseCertificate(k.Cert)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("read session authority: %w", err)
	}
	var is, isLeaf bool
	a.cert = cert
	a.key, is = key.(*ecdsa.PrivateKey)
	a.leafKey, isLeaf = leaf.(*ecdsa.PrivateKey)
	if !is || !isLeaf || !a.key.PublicKey.Equal(cert.PublicKey) {
		return nil, errors.New("read session authority: its keys are not its own")
	}
	return a, nil
}

func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}

// PEM is the authority's certificate, for those who are to trust it.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.der})
}

// Config gives the settings with which a server is the host, speaking exactly
// proto after the handshake ("" for a client that negotiates nothing). They are
// kept, so that sessions can be resumed, and must not be changed.
func (a *Authority) Config(host, proto string) (*tls.Config, error) {
	id, at := proto+" "+host, a.now()
	if c := a.kept(id, at); c != nil {
		return c, nil
	}
	// Without the lock: signing takes long, and others have other names.
	l, err := a.make(id, host, proto, at)
	if err != nil {
		return nil, fmt.Errorf("make certificate for %s: %w", host, err)
	}
	a.keep(l)
	return l.config, nil
}

// Took notes that a program finished a handshake with the leaf that Config gave.
func (a *Authority) Took(host, proto string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, ok := a.leaves[proto+" "+host]; ok {
		e.Value.(*leaf).taken = true
	}
}

// Taken reports whether a program finished a handshake with that leaf before.
func (a *Authority) Taken(host, proto string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.leaves[proto+" "+host]
	return ok && e.Value.(*leaf).taken
}

func (a *Authority) kept(id string, at time.Time) *tls.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.leaves[id]
	if !ok {
		return nil
	}
	l, _ := e.Value.(*leaf)
	if !at.Before(l.expires.Add(-renewBefore)) {
		return nil
	}
	a.recent.MoveToFront(e)
	return l.config
}

func (a *Authority) keep(l *leaf) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, ok := a.leaves[l.id]; ok {
		a.recent.Remove(e)
	}
	a.leaves[l.id] = a.recent.PushFront(l)
	for a.recent.Len() > most {
		if old, ok := a.recent.Remove(a.recent.Back()).(*leaf); ok {
			delete(a.leaves, old.id)
		}
	}
}

func (a *Authority) make(id, host, proto string, at time.Time) (*leaf, error) {
	l := &leaf{id: id, expires: at.Add(leafLife)}
	if l.expires.After(a.cert.NotAfter) {
		l.expires = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial(),
		NotBefore:    at.Add(-early), NotAfter: l.expires,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		template.IPAddresses = append(template.IPAddresses, addr.AsSlice())
	} else {
		template.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.leafKey.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	l.config = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: a.leafKey}},
		MinVersion:   tls.VersionTLS12,
		Time:         a.now,
		// This half stays on this host: what a later computer could break of it, it
		// could have read here. A key exchange of two kinds costs each side 50 µs more.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521},
		// Small first records hide latency on slow links; this one is loopback.
		DynamicRecordSizingDisabled: true,
	}
	if proto != "" {
		l.config.NextProtos = []string{proto}
	}
	return l, nil
}

// Kept says how many leaves are kept.
func (a *Authority) Kept() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.recent.Len()
}
