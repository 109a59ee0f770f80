//go:build linux

package loadtest

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloister/escape/hoard"
)

// serverWord makes the test binary a server of TLS, with the key and certificate
// in a file, until its input ends. It prints where it listens.
const serverWord = "server-outside"

func server(pair string) int {
	cert, err := tls.LoadX509KeyPair(pair, pair)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.Addr())
	s := &http.Server{
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/ws" {
				socket(w)
				return
			}
			if hoard.Serve(w, r) {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/mcp" && r.Method == http.MethodPost {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
				return
			}
			if n, err := strconv.Atoi(r.URL.RawQuery); err == nil && r.URL.Path == "/mcp" {
				event(w, int64(n))
				return
			}
			n, err := strconv.Atoi(path.Base(r.URL.Path))
			if err != nil {
				_, _ = io.WriteString(w, "hello")
				return
			}
			w.Header().Set("Content-Length", strconv.Itoa(n))
			for block := make([]byte, 64<<10); n > 0 && err == nil; n -= len(block) {
				_, err = w.Write(block[:min(n, len(block))])
			}
		}),
	}
	go func() { _ = s.ServeTLS(l, "", "") }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = s.Close()
	return 0
}

// pair writes an authority that signs for itself, with its key, and gives the file.
func (w *world) pair(names ...string) string {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	text := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "load"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, text, text, &key.PublicKey, key)
	if err != nil {
		w.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		w.t.Fatal(err)
	}
	out := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	path := filepath.Join(w.dir, "pair.pem")
	if err := os.WriteFile(path, out, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// server starts a server in a process of its own, so that whoever is slow is not it.
func (w *world) server(pair string) string {
	w.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(w.t.Context()), "/proc/self/exe", serverWord, pair)
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	var at string
	if _, err := fmt.Fscanln(out, &at); err != nil {
		w.t.Fatal(err)
	}
	return at
}

// RS-10: one of many sessions takes what it gets of the proxy, the names, host
// commands and the record; the others ask as they did. What a program takes that only
// computes, and one that asks the same server without us, is measured beside it: that
// much is the processors' and not the guardian's.
func TestNoisySession(t *testing.T) {
	w := newWorld(t, nil)
	pair := w.pair("quiet.example", "noisy.example")
	quietAt, noisyAt := w.server(pair), w.server(pair)
	w.configure(fmt.Sprintf("version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  hosts: {quiet.example: %q, noisy.example: %q}\n  upstream_ca: [%q]\n"+
		"  allow: [{domain: quiet.example, methods: [GET]}, {domain: noisy.example, methods: [GET]}]\nhostexec:\n  auto_approve: [{pattern: \"^true$\"}]\n", quietAt, noisyAt, pair))
	w.do("guardian", "reload")
	lasts := time.Duration(number(200, 3000)) * time.Millisecond
	calm := order{Do: "load", URL: "https://quiet.example/", For: lasts, Every: 50 * time.Millisecond, Wide: 1, Keep: true, Within: 2 * time.Minute}
	var others []*inside
	for range number(2, 19) {
		others = append(others, w.inside())
	}
	noisy := w.inside()
	first := calm
	first.For = time.Millisecond
	for _, c := range append(others, noisy) {
		if a := c.do(first); a.Good == 0 {
			t.Fatalf("control: %+v", a)
		}
	}
	measure := func() answer {
		var all answer
		for _, c := range others {
			c.tell(calm)
		}
		for _, c := range others {
			a := c.hear()
			all.Good, all.Bad, all.Took = all.Good+a.Good, all.Bad+a.Bad, append(all.Took, a.Took...)
			all.LastError = cmp.Or(a.LastError, all.LastError)
		}
		return all
	}
	more := lasts + time.Duration(number(100, 1000))*time.Millisecond
	direct := w.outside("SSL_CERT_FILE=" + pair)
	wide := number(16, 64)
	kinds := []struct {
		name string
		do   order
	}{
		{"control: computes", order{Do: "spin", Wide: number(4, 16)}},
		{"control: requests on many connections, outside", order{Do: "load", URL: "https://" + noisyAt, Wide: wide, Keep: true}},
		{"requests on many connections", order{Do: "load", URL: "https://noisy.example/", Wide: wide, Keep: true}},
		{"a connection for each request", order{Do: "load", URL: "https://noisy.example/", Wide: wide}},
		{"refused requests", order{Do: "load", URL: "https://denied.example/", Wide: wide}},
		{"names", order{Do: "names", URL: "n%d.flood.example", Wide: wide}},
		{"host commands", order{Do: "exec", URL: "hostexec true", Wide: number(2, 16)}},
	}
	pick := os.Getenv("CLOISTER_LOAD_NOISE")
	base := measure()
	for _, k := range kinds {
		if !strings.Contains(k.name, pick) {
			continue
		}
		if full { // as it is by now
			base = measure()
		}
		k.do.For = more
		who := noisy
		if strings.Contains(k.name, "outside") {
			who = direct
		}
		who.tell(k.do)
		beside := measure()
		noise := who.hear()
		t.Logf("RS-10 %s, %d wide (%d, refused %d): %d others' p50 %v p99 %v, without p50 %v p99 %v: %.1f times (bar 2)", k.name, k.do.Wide, noise.Good, noise.Bad, len(others),
			quantile(beside.Took, 0.5), quantile(beside.Took, 0.99), quantile(base.Took, 0.5), quantile(base.Took, 0.99),
			float64(quantile(beside.Took, 0.99))/float64(quantile(base.Took, 0.99)))
		if noise.Good+noise.Bad == 0 {
			t.Error("no noise was made")
		}
		if beside.Bad+base.Bad != 0 {
			t.Errorf("others were refused: %s%s", base.LastError, beside.LastError)
		}
	}
	w.verified()
}
