package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"cloister/bench/streams"
)

// readSettings is a configuration in which rules read the requests.
const readSettings = `version: 1
proxy:
  unlisted_domain_behavior: deny
  hosts: {api.bench.example: "127.0.0.1:%d"}
  upstream_ca: [%q]
  allow: [{domain: api.bench.example, ports: [%d], methods: [GET], paths: ["/**"]}]
`

const readName = "api.bench.example"

// A pki is an authority with one server's certificate, in files.
type pki struct {
	caFile, caKeyFile string // the second holds the key too, for a proxy that signs
	server            tls.Certificate
}

func newPKI(dir string) (*pki, error) {
	p := &pki{caFile: filepath.Join(dir, "ca.pem"), caKeyFile: filepath.Join(dir, "ca-key.pem")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: readName}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{readName}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	p.server = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return p, errors.Join(os.WriteFile(p.caFile, cert, 0o644), os.WriteFile(p.caKeyFile, slices.Concat(cert, secret), 0o644), // of a bench, gone in a minute
		os.WriteFile(filepath.Join(dir, "server.pem"), slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), secret), 0o644))
}

// serveTLS answers with a word, or with as many bytes as the path says, whom it knows.
func serveTLS(l net.Listener, cert tls.Certificate, knows func(*http.Request) bool) error {
	s := &http.Server{
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !knows(r) {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if streams.Serve(w, r) {
				return
			}
			n, err := strconv.ParseInt(r.URL.Path[1:], 10, 64)
			if err != nil {
				_, _ = io.WriteString(w, "hello")
				return
			}
			w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
			buf := make([]byte, 256<<10)
			for ; n > 0; n -= int64(len(buf)) {
				if _, err := w.Write(buf[:min(n, int64(len(buf)))]); err != nil {
					return
				}
			}
		}),
	}
	return s.ServeTLS(l, "", "")
}

func anybody(*http.Request) bool { return true }

// secured begins such a server on a port of loopback, until its listener is closed.
func (w *world) secured(knows func(*http.Request) bool) (*pki, net.Listener, int, error) {
	p, err := newPKI(w.dir)
	if err != nil {
		return nil, nil, 0, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, 0, err
	}
	go func() { _ = serveTLS(l, p.server, knows) }()
	return p, l, l.Addr().(*net.TCPAddr).Port, nil // it is one
}

// secure opens TLS on a way, trusting the roots that are named, or the system's.
func (o order) secure() (*tls.Conn, *bufio.Reader, error) {
	raw, err := o.dial()
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{ServerName: o.Name, MinVersion: tls.VersionTLS12}
	if o.Roots != "" {
		text, err := os.ReadFile(o.Roots)
		if err != nil {
			return nil, nil, err
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(text)
	}
	c := tls.Client(raw, config)
	if err := c.Handshake(); err != nil {
		_ = raw.Close()
		return nil, nil, err
	}
	return c, bufio.NewReaderSize(c, 64<<10), nil
}

// get is one request with its answer.
func (o order) get(c *tls.Conn, r *bufio.Reader, path string) error {
	more := ""
	if o.Token != "" {
		more = "Authorization: Bearer " + cmp.Or(o.Word, os.Getenv(o.Token)) + "\r\n"
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, o.To, more); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return err
}

// requests asks Times on each of Wide connections that are kept, and tells how long
// each took, in seconds. It began when all of them were open.
func (o order) requests(began *time.Time) ([]float64, error) {
	var all, opening sync.WaitGroup
	took := make([][]float64, max(1, o.Wide))
	failed := make([]error, len(took))
	open := make(chan struct{})
	opening.Add(len(took))
	for i := range took {
		all.Go(func() {
			c, r, err := o.secure()
			opening.Done()
			if err != nil {
				failed[i] = err
				return
			}
			defer func() { _ = c.Close() }()
			<-open
			for range o.Times {
				began := time.Now()
				if failed[i] = o.get(c, r, "/x"); failed[i] != nil {
					return
				}
				took[i] = append(took[i], time.Since(began).Seconds())
			}
		})
	}
	opening.Wait()
	*began = time.Now()
	close(open)
	all.Wait()
	return slices.Concat(took...), errors.Join(failed...)
}

// handshake is a connection of its own for one request.
func (o order) handshake() error {
	c, r, err := o.secure()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return o.get(c, r, "/x")
}

// fetch is bulk.
func (o order) fetch() error {
	c, r, err := o.secure()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return o.get(c, r, "/"+strconv.FormatInt(o.Bytes, 10))
}

// readers start the proxies that open TLS as their manuals have it.
func (w *world) readers(ctx context.Context, p *pki) (map[string]string, map[string]string, error) {
	proxies, roots := map[string]string{}, map[string]string{}
	start := func(name string, port int, root string, args ...string) error {
		if _, err := w.daemon(ctx, w.peers[name].path, args...); err != nil {
			return err
		}
		ok := until(ctx, 60*time.Second, func() bool {
			c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
			if err == nil {
				_ = c.Close()
			}
			_, there := os.Stat(root)
			return err == nil && there == nil
		})
		if !ok {
			w.absent(name, errors.New("it does not answer within a minute"))
			return nil
		}
		proxies[name], roots[name] = fmt.Sprintf("http://127.0.0.1:%d", port), root
		return nil
	}
	if _, ok := w.peers["mitmproxy"]; ok && !w.short {
		port, err := freePort()
		if err != nil {
			return nil, nil, err
		}
		dir := filepath.Join(w.dir, "mitm")
		if err := start("mitmproxy", port, filepath.Join(dir, "mitmproxy-ca-cert.pem"), "-q", "--listen-host", "127.0.0.1", "-p", strconv.Itoa(port),
			"--set", "confdir="+dir, "--set", "ssl_verify_upstream_trusted_ca="+p.caFile); err != nil {
			return nil, nil, err
		}
	}
	if _, ok := w.peers["squid"]; ok && !w.short {
		port, conf, err := w.squidReads(ctx, p)
		if err != nil {
			w.absent("squid", err)
			return proxies, roots, nil
		}
		if err := start("squid", port, p.caFile, "-N", "-f", conf); err != nil {
			return nil, nil, err
		}
	}
	return proxies, roots, nil
}

// certgen is Debian's place of the program with which squid makes certificates.
const certgen = "/usr/lib/squid/security_file_certgen"

func (w *world) squidReads(ctx context.Context, p *pki) (port int, conf string, err error) {
	dir := filepath.Join(w.dir, "squid-reads")
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil { // squid as root becomes another user
		return 0, "", err
	}
	if _, err := w.said(ctx, certgen, "-c", "-s", filepath.Join(dir, "db"), "-M", "16MB"); err != nil {
		return 0, "", fmt.Errorf("this squid opens no TLS (Debian's squid-openssl does): %w", err)
	}
	// It signs names alone.
	if err := os.WriteFile(filepath.Join(dir, "hosts"), []byte("127.0.0.1 "+readName+"\n"), 0o644); err != nil {
		return 0, "", err
	}
	if u, uerr := user.Lookup("proxy"); os.Getuid() == 0 && uerr == nil {
		uid, _ := strconv.Atoi(u.Uid)
		err = filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error { return errors.Join(err, os.Chown(path, uid, -1)) })
	}
	port, perr := freePort()
	if err := errors.Join(err, perr); err != nil {
		return 0, "", err
	}
	conf = filepath.Join(w.dir, "squid-reads.conf")
	text := fmt.Sprintf("http_port 127.0.0.1:%d ssl-bump generate-host-certificates=on dynamic_cert_mem_cache_size=16MB tls-cert=%s\n"+
		"sslcrtd_program %s -s %s/db -M 16MB\nsslcrtd_children 2\nssl_bump bump all\ntls_outgoing_options cafile=%s\nhttp_access allow all\n"+
		"cache deny all\naccess_log none\ncache_log %[4]s/cache.log\npid_filename none\nhosts_file %[4]s/hosts\ncoredump_dir %[4]s\nshutdown_lifetime 0 seconds\nmax_filedescriptors 4096\nnetdb_filename none\npinger_enable off\n",
		port, p.caKeyFile, certgen, dir, p.caFile)
	return port, conf, os.WriteFile(conf, []byte(text), 0o644)
}

// A reader is a way to a server whose requests are read, or the direct one.
type reader struct {
	*way
	roots, name string
}

// secureWays starts a server of TLS and everything that a client can reach it through.
func (w *world) secureWays(ctx context.Context) (list []reader, done func(), err error) {
	p, l, port, err := w.secured(anybody)
	if err != nil {
		return nil, nil, err
	}
	end := func() {
		for _, y := range list {
			_ = y.close()
		}
		_ = l.Close()
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	if _, err := w.guardianOf(ctx, fmt.Sprintf(readSettings, port, p.caFile, port)); err != nil {
		return nil, nil, err
	}
	proxies, roots, err := w.readers(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	client, err := w.client()
	if err != nil {
		return nil, nil, err
	}
	here, named := fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("%s:%d", readName, port)
	least, err := w.least(ctx, p, port)
	if err != nil {
		return nil, nil, err
	}
	add := func(name string, words []string, to, proxy, roots, host string) error {
		y, err := w.open(ctx, name, words, to, proxy, nil)
		if err == nil {
			list = append(list, reader{y, roots, host})
		}
		return err
	}
	plain := []string{client, insideWord}
	err = errors.Join(add("direct", plain, here, "", p.caFile, "127.0.0.1"), add(leastLoop, plain, least, "", p.caFile, "127.0.0.1"),
		add(ours, []string{w.cloister, "run", "--", client, insideWord}, named, "", "", readName))
	if proxies["squid"] != "" {
		err = errors.Join(err, add("squid", plain, named, proxies["squid"], roots["squid"], readName))
	}
	if proxies["mitmproxy"] != "" {
		err = errors.Join(err, add("mitmproxy", plain, here, proxies["mitmproxy"], roots["mitmproxy"], "127.0.0.1"))
	}
	return list, end, err
}

// measureInspected asks, opens and fetches through connections that are read.
func measureInspected(ctx context.Context, w *world) error {
	list, done, err := w.secureWays(ctx)
	if err != nil {
		return err
	}
	defer done()
	size, asked := int64(256<<20), w.rounds(1000)
	if w.short {
		size = 16 << 20
	}
	for range w.rounds(5) {
		list, err = each(w, list, func(y reader) error {
			o := order{Name: y.name, Roots: y.roots}
			slow := 1
			if y.way.name == "mitmproxy" {
				slow = 10
			}
			one, many, opened, bulk := o, o, o, o
			one.Do, one.Times = "requests", asked/slow
			many.Do, many.Times, many.Wide = "requests", asked/slow/2, 16
			opened.Do, opened.Times = "handshakes", max(1, asked/5/slow)
			bulk.Do, bulk.Bytes = "fetch", size/int64(slow)
			took, err := y.each(one)
			if err != nil {
				return err
			}
			w.raw.add("request p50", y.way.name, "µs", at(took, 0.5)*1e6)
			w.raw.add("request p99", y.way.name, "µs", at(took, 0.99)*1e6)
			seconds, err := y.do(many)
			if err != nil {
				return err
			}
			w.raw.add("requests 16", y.way.name, "a second", float64(many.Times*many.Wide)/seconds)
			if seconds, err = y.do(opened); err != nil {
				return err
			}
			w.raw.add("new inspected", y.way.name, "a second", float64(opened.Times)/seconds)
			if seconds, err = y.do(bulk); err != nil {
				return err
			}
			w.raw.add("inspected bulk", y.way.name, "MB/s", float64(bulk.Bytes)/1e6/seconds)
			return nil
		}, func(y reader) string { return y.way.name })
		if err != nil {
			return err
		}
	}
	w.added("request", "p50", "µs")
	w.added("request", "p99", "µs")
	return nil
}

// each takes a turn with everyone; who cannot do it takes no further part.
func each[T any](w *world, list []T, do func(T) error, name func(T) string) ([]T, error) {
	var failed error
	left := slices.Clone(list)
	left = slices.DeleteFunc(left, func(y T) bool {
		err := do(y)
		switch {
		case err == nil:
			return false
		case name(y) == ours || name(y) == "direct":
			failed = errors.Join(failed, err)
			return false
		}
		w.absent(name(y), err)
		return true
	})
	return left, failed
}
