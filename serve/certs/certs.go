// Package certs gives a server its certificate, and the next one once it is renewed.
//
// The promise: a server does not begin with a certificate that is over, not yet good or for
// other names, and shows none that is over: a client is refused rather than taught to accept
// it. A renewed one is shown within a second of its file, without a new start; files that
// are no certificate leave the one before.
//
// Most readers want [Open].
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Options are where a certificate lies, and what it is for.
type Options struct {
	Cert, Key string // files
	Domain    string // it must be for Domain and *.Domain; empty for any names
	Log       *slog.Logger
	Now       func() time.Time // nil for time.Now
}

// Keeper has the certificate of now.
type Keeper struct {
	o Options

	mu     sync.Mutex
	pair   *tls.Certificate
	seen   [2]fs.FileInfo // of the files of pair, or of those that were no certificate
	looked time.Time
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// Open reads the certificate.
func Open(o Options) (*Keeper, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	k := &Keeper{o: o}
	var err error
	if k.seen, err = k.stat(); err == nil {
		k.pair, err = k.read()
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	k.looked = o.Now()
	return k, nil
}

// Config is for a server that speaks HTTP.
func (k *Keeper) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return k.get() },
	}
}

func (k *Keeper) stat() (seen [2]fs.FileInfo, err error) {
	for i, name := range []string{k.o.Cert, k.o.Key} {
		if seen[i], err = os.Stat(name); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// read reads the files as they are now.
func (k *Keeper) read() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(k.o.Cert, k.o.Key)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	if err := good(pair.Leaf, k.o.Now()); err != nil {
		return nil, fmt.Errorf("%s: %w", k.o.Cert, err)
	}
	if k.o.Domain != "" {
		for _, name := range []string{k.o.Domain, "any." + k.o.Domain} {
			if err := pair.Leaf.VerifyHostname(name); err != nil {
				return nil, fmt.Errorf("%s: it is to be for %s and *.%s: %w", k.o.Cert, k.o.Domain, k.o.Domain, err)
			}
		}
	}
	return &pair, nil
}

// good refuses a certificate that is not good at a moment.
func good(leaf *x509.Certificate, at time.Time) error {
	switch {
	case at.After(leaf.NotAfter):
		return fmt.Errorf("it ended at %s: renew it", leaf.NotAfter.UTC().Format(time.RFC3339))
	case at.Before(leaf.NotBefore):
		return fmt.Errorf("it begins at %s: set the clock, or wait", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// get gives the certificate of now, of the files as they are now.
func (k *Keeper) get() (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.o.Now()
	if since := now.Sub(k.looked); since >= lookEvery || since < 0 { // a clock that was set back too
		k.looked = now
		k.look()
	}
	if err := good(k.pair.Leaf, now); err != nil {
		k.o.Log.Error("a client is refused for want of a certificate", "error", err)
		return nil, errors.New("the server has no certificate that is good now")
	}
	return k.pair, nil
}

// look takes a renewed certificate. The lock is held.
func (k *Keeper) look() {
	seen, err := k.stat()
	if err == nil && same(seen[0], k.seen[0]) && same(seen[1], k.seen[1]) {
		return
	}
	var pair *tls.Certificate
	if err == nil {
		pair, err = k.read()
	}
	if err != nil {
		k.o.Log.Warn("the certificate on disk is not taken: the one before stays", "error", err)
		return // a key may come after its certificate: it is looked at again
	}
	k.pair, k.seen = pair, seen
	k.o.Log.Info("a renewed certificate is shown", "until", pair.Leaf.NotAfter)
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
