package certs_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloister/serve/certs"
)

// place writes a certificate with a serial number and its key.
func place(t *testing.T, dir string, serial int64, from, until time.Time, names ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: from, NotAfter: until, DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}))
}

// write replaces a file, as what renews certificates does.
func write(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// shown is the serial number of the certificate that a client is shown; 0 where it is refused.
func shown(t *testing.T, k *certs.Keeper) int64 {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	done := make(chan error, 1)
	go func() {
		defer far.Close()
		done <- tls.Server(far, k.Config()).HandshakeContext(t.Context())
	}()
	c := tls.Client(near, &tls.Config{InsecureSkipVerify: true, ServerName: "api.sandboxes.example"})
	err := c.HandshakeContext(t.Context())
	near.Close()
	<-done
	if err != nil {
		return 0
	}
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestCertificates has certificates that are renewed, broken, over, and under a clock that
// steps.
func TestCertificates(t *testing.T) {
	dir, begin := t.TempDir(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var at atomic.Int64
	var log strings.Builder
	o := certs.Options{
		Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), Domain: "sandboxes.example",
		Log: slog.New(slog.NewTextHandler(&log, nil)), Now: func() time.Time { return begin.Add(time.Duration(at.Load())) },
	}
	day, names := 24*time.Hour, []string{"sandboxes.example", "*.sandboxes.example"}
	for what, make := range map[string]func(){
		"ended at":           func() { place(t, dir, 1, begin.Add(-2*day), begin.Add(-day), names...) },
		"begins at":          func() { place(t, dir, 1, begin.Add(day), begin.Add(2*day), names...) },
		"*.sandboxes.exampl": func() { place(t, dir, 1, begin.Add(-day), begin.Add(day), "sandboxes.example") },
		"for sandboxes.exam": func() { place(t, dir, 1, begin.Add(-day), begin.Add(day), "*.sandboxes.example") },
		"PEM": func() {
			place(t, dir, 1, begin.Add(-day), begin.Add(day), names...)
			write(t, o.Cert, []byte("none"))
		},
	} {
		make()
		if _, err := certs.Open(o); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error with %q: %v", what, err)
		}
	}

	place(t, dir, 1, begin.Add(-day), begin.Add(day), names...)
	k, err := certs.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	step := func(what string, d time.Duration, want int64) {
		t.Helper()
		at.Add(int64(d))
		if got := shown(t, k); got != want {
			t.Errorf("%s: certificate %d, want %d; %s", what, got, want, log.String())
		}
	}
	step("at first", 0, 1)
	place(t, dir, 2, begin.Add(-day), begin.Add(3*day), names...)
	step("renewed", time.Second, 2)
	good, err := os.ReadFile(o.Key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, o.Key, []byte("half of a ke"))
	step("a key that is half written", time.Second, 2)
	write(t, o.Key, good)
	step("and whole again", time.Second, 2)
	place(t, dir, 3, begin.Add(-day), begin.Add(9*day), "other.example")
	step("for another name", time.Second, 2)
	if err := os.Remove(o.Cert); err != nil {
		t.Fatal(err)
	}
	step("none", time.Second, 2)
	step("when it is over", 4*day, 0)
	if !strings.Contains(log.String(), "renew it") {
		t.Errorf("the log does not say what to do: %s", log.String())
	}
	step("under a clock that was set back", -3*day, 2)
	step("under one that was set back by years", -1000*day, 0)
	at.Store(int64(4 * day))
	place(t, dir, 4, begin, begin.Add(9*day), names...)
	step("renewed after its end", time.Second, 4)
}
