package mint_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"cloister/egress/internal/mint"
)

func parse(t testing.TB, text []byte) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(text)
	if block == nil || len(rest) > 0 {
		t.Fatalf("no single PEM block: %q", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAuthority(t *testing.T) {
	now := time.Now()
	a, err := mint.New(func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	ca := parse(t, a.PEM())
	if !ca.IsCA || !ca.BasicConstraintsValid || ca.MaxPathLen != 0 || !ca.MaxPathLenZero || ca.KeyUsage&x509.KeyUsageCertSign == 0 || len(ca.SubjectKeyId) == 0 {
		t.Errorf("authority %+v", ca)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	for _, host := range []string{"a.test", "203.0.113.7", "2001:db8::1"} {
		c, err := a.Config(host, "h2")
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		if leaf.IsCA || leaf.NotAfter.After(now.Add(24*time.Hour)) || leaf.Subject.String() != "" || len(leaf.AuthorityKeyId) == 0 {
			t.Errorf("%s: %+v", host, leaf)
		}
		if err := leaf.VerifyHostname("b.test"); err == nil {
			t.Errorf("%s: good for b.test too", host)
		}
	}
	// RS-16: the clock is set by an hour, forwards or back, while leaves are kept.
	for _, step := range []time.Duration{time.Hour, -time.Hour, 0} {
		real := now
		now = now.Add(step)
		c, err := a.Config("a.test", "h2")
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "a.test", Roots: roots, CurrentTime: now}); err != nil {
			t.Errorf("after a step of %s: %v", step, err)
		}
		now = real
	}
	again, _ := a.Config("a.test", "h2")
	first, _ := a.Config("a.test", "h2")
	if again != first {
		t.Error("a kept leaf was made anew")
	}
	now = now.Add(13 * time.Hour)
	if later, _ := a.Config("a.test", "h2"); later == first {
		t.Error("a leaf that is past half of its life was given out")
	}
	other, err := mint.New(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if parse(t, other.PEM()).Equal(ca) {
		t.Error("two sessions share an authority")
	}
}

// The number of leaves is bounded, however many names a program makes up.
func TestBound(t *testing.T) {
	a, err := mint.New(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if _, err := a.Config(fmt.Sprintf("n%d.test", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.Kept(); n != 1024 {
		t.Errorf("%d leaves kept", n)
	}
}

// A client that knows the authority gets through, speaks what was set, and
// resumes.
func TestHandshake(t *testing.T) {
	a, err := mint.New(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	client := &tls.Config{RootCAs: roots, ServerName: "a.test", NextProtos: []string{"h2", "http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	for i := range 2 {
		c, s := net.Pipe()
		config, err := a.Config("a.test", "http/1.1")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			server := tls.Server(s, config)
			_, err := server.Write([]byte("x"))
			done <- err
		}()
		conn := tls.Client(c, client)
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		state := conn.ConnectionState()
		if state.NegotiatedProtocol != "http/1.1" || state.DidResume != (i == 1) {
			t.Errorf("handshake %d: %q, resumed %t", i, state.NegotiatedProtocol, state.DidResume)
		}
		c.Close()
		s.Close()
	}
}

func BenchmarkMint(b *testing.B) {
	a, err := mint.New(time.Now)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if _, err := a.Config(fmt.Sprintf("n%d.test", i), ""); err != nil {
			b.Fatal(err)
		}
	}
}

// RS-18: many names leave as many certificates as are kept. CLOISTER_TEST_LONG=1
// tries 50,000.
func TestManyLeaves(t *testing.T) {
	n := 2000
	if os.Getenv("CLOISTER_TEST_LONG") != "" {
		n = 50_000
	}
	a, err := mint.New(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var took []time.Duration
	before := heap()
	for i := range n {
		began := time.Now()
		if _, err := a.Config(fmt.Sprintf("name-%05d.example.com", i), ""); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	grown := heap() - before
	slices.Sort(took)
	t.Logf("%d names: p50 %v, p99 %v each; %d KiB kept", n, took[n/2], took[n*99/100], grown>>10)
	if grown > 16<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	if took[n/2] > 20*time.Millisecond { // seen: 0.1 ms
		t.Errorf("a certificate takes %v", took[n/2])
	}
	runtime.KeepAlive(a)
}
