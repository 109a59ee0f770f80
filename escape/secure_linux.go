package escape

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1" // RFC 6455 names it, and no secret hangs on it
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"cloister/escape/hoard"
)

// Inspected are the names whose requests rules read, and what of them is
// allowed: of the first GET and POST below /ok/, of the second what says that it
// is of the tenant "mine". The third gets that field on the way.
func Inspected() []string { return []string{"inspected.test", "tenant.test", "rewritten.test"} }

// RawName is a name whose requests rules read, of a server that reads none: it
// keeps what it is sent, and answers every end of a head. GET and POST below /ok/
// are allowed.
const RawName = "raw.test"

// TenantName is the host of a bucket that a preset may be for.
const TenantName = "mine.s3.amazonaws.com"

// GoogleStore is the host of every bucket of Google's, of which a preset may be for one.
const GoogleStore = "storage.googleapis.com"

// BegunUpload is the id of every resumable upload that is begun at GoogleStore.
const BegunUpload = "begun-upload"

// secure serves TLS as the servers behind inspected names do, in HTTP/1.1 and
// HTTP/2, and keeps each request that reached it. A name as the last part of a
// path below /ok/ asks for an answer that no good server gives.
func (s *sinks) secure() error {
	cert, authority, err := certificate(append(append(Inspected(), Bound()...), RawName, TenantName, "s3.amazonaws.com", GoogleStore))
	if err != nil {
		return err
	}
	bad, err := untrusted(cert)
	if err != nil {
		return err
	}
	pick := func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if c := bad[hello.ServerName]; c != nil {
			return c, nil
		}
		return &cert, nil
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = s.hide()
	}
	if err != nil {
		return fmt.Errorf("open sink: %w", err)
	}
	s.authority, s.tlsPort = authority, ln.Addr().(*net.TCPAddr).Port
	server := &http.Server{
		Handler: http.HandlerFunc(s.inspected), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{GetCertificate: pick, NextProtos: []string{"h2", "http/1.1"}, EncryptedClientHelloKeys: s.hidden},
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	s.closers = append(s.closers, server)
	// One that takes whatever it is sent: what good servers refuse by themselves
	// proves nothing of who stands before them.
	lenient, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		return fmt.Errorf("open sink: %w", err)
	}
	s.rawPort = lenient.Addr().(*net.TCPAddr).Port
	s.serve("raw", lenient, &s.up)
	s.wait.Go(func() { _ = server.ServeTLS(ln, "", "") }) // until it is closed
	return nil
}

func (s *sinks) inspected(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/ok/hoard/") && hoard.Serve(w, r) {
		return // there are too many to keep
	}
	s.keep(&s.up, fmt.Sprintf("inspected: %s %s %s Host %s %q", r.Proto, r.Method, r.RequestURI, r.Host, r.Header))
	_, kind, _ := strings.Cut(r.URL.Path, "/ok/")
	switch kind {
	case "unasked", "wrong", "websocket":
		s.upgrade(w, r, kind)
		return
	}
	if other := r.Header["X_tenant"]; kind == "strangers" && len(other) == 0 && slices.Equal(r.Header["X-Tenant"], []string{"mine"}) {
		http.Error(w, "for other tenants only", http.StatusForbidden)
		return
	}
	body := s.readBody(r)
	if r.Host == GoogleStore && r.Method == http.MethodPost && (strings.Contains(r.URL.RawQuery, "resumable") || r.Header.Get("X-Goog-Resumable") != "") {
		w.Header().Set("Location", "https://"+GoogleStore+r.URL.Path+"?uploadType=resumable&upload_id="+BegunUpload)
	}
	if kind == "reflect/first" { // what the host was told before all else
		s.mu.Lock()
		if s.first == "" {
			s.first = r.Header.Get("Authorization")
		}
		defer s.mu.Unlock()
		fmt.Fprint(w, "first said ", strings.TrimPrefix(s.first, "Bearer "))
		return
	}
	if way, ok := strings.CutPrefix(kind, "reflect/"); ok {
		reflect(w, r, way)
		return
	}
	if r.Host == "tools.test" {
		s.tools(w, body)
		return
	}
	fmt.Fprint(w, "sunk")
}

// upgrade answers 101: unasked for, with a wrong key, or as it should be. What
// follows is kept, and answered with a frame.
func (s *sinks) upgrade(w http.ResponseWriter, r *http.Request, kind string) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "no upgrade", http.StatusBadRequest)
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	key := r.Header.Get("Sec-Websocket-Key")
	if kind == "wrong" {
		key = "another"
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	s.frames(c, rw.Reader)
}

func (s *sinks) frames(c net.Conn, r *bufio.Reader) {
	for buf := make([]byte, 4096); ; {
		n, err := r.Read(buf)
		if n > 0 {
			s.keep(&s.up, fmt.Sprintf("after 101: %q", buf[:n]))
			_, _ = c.Write([]byte("\x81\x04sunk")) // who asked may be gone
		}
		if err != nil {
			return
		}
	}
}

// certificate is one for names, with its own authority as PEM.
func certificate(names []string) (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("make certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "escape"}, DNSNames: names,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("make certificate: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if text == nil {
		return tls.Certificate{}, nil, errors.New("make certificate: it cannot be written as PEM")
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, text, nil
}
