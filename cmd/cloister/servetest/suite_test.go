//go:build linux

package servetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// suiteDomain is below which the server of the suite gives names.
const suiteDomain = "sandboxes.example"

// suiteFails are the tests of E2B's suite that are known to fail, by a part of their names,
// with the reason.
var suiteFails = map[string]string{
	"firewall transform":           "header rules, and a template httpbin: refused by name",
	"MCP gateway":                  "the template mcp-gateway, which there is not",
	"bash command scoped env vars": "it runs sudo: no program gets a right more inside",
	"signing as root user":         "one user, whose home is not /root",
	"write multiple files":         "it writes files at /, which is read-only",
}

// TestSuite runs the suite of E2B's JavaScript SDK, without a server and then with one, and
// writes what passed of the tests that need one. script/test e2b runs it, as root in a
// network and a mount namespace of its own.
func TestSuite(t *testing.T) {
	suite := os.Getenv("CLOISTER_E2B_SUITE")
	if suite == "" {
		t.Skip("script/test e2b runs it: CLOISTER_E2B_SUITE names the folder of the SDK, with what it needs")
	}
	w := newSuite(t, suite)
	alone := w.run("alone", "E2B_DOMAIN="+suiteDomain, "E2B_API_KEY=e2b_"+strings.Repeat("0", 40))
	s := newServerAt(t, "127.0.0.1:443", []string{"--ahead", "2", "--sandboxes", "200", "--requests", "100000"},
		[]string{"--domain", suiteDomain, "--tls-cert", w.cert, "--tls-key", w.key}, "acme")
	file := filepath.Join(s.dir, "d/cloister/serve/t/acme/config/cloister/config.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range internet() {
		text = fmt.Appendf(text, "%s    - domain: %s\n", map[bool]string{true: "  allow:\n"}[!strings.Contains(string(text), "  allow:\n")], host.name)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	with := w.run("with", "E2B_DOMAIN="+suiteDomain, "E2B_API_KEY="+s.keys["acme"])
	live, passed := 0, 0
	var rows []string
	for _, name := range sorted(with) {
		if alone[name] == "failed" {
			live++
			if with[name] == "passed" {
				passed++
			}
		}
		if with[name] != "failed" {
			continue
		}
		why := ""
		for part, reason := range suiteFails {
			if strings.Contains(name, part) {
				why = reason
			}
		}
		if why == "" {
			t.Errorf("failed: %s", name)
		}
		rows = append(rows, fmt.Sprintf("| %s | %s |", strings.ReplaceAll(name, "|", "/"), why))
	}
	t.Logf("%d of %d tests that need a server passed; failed:\n%s", passed, live, strings.Join(rows, "\n"))
	if passed < 190 {
		t.Errorf("%d of %d tests passed that need a server, want 190", passed, live)
	}
	others := w.others(s)
	t.Log(others)
	if os.Getenv("CLOISTER_KEEP") == "" {
		return
	}
	out := fmt.Sprintf("# E2B's own suite\n\nWritten by `script/test e2b`, %s: the suite of the JavaScript SDK at %s, without its tests of\n"+
		"templates, bundles and browsers. **%d of the %d tests that fail without a server passed.** All tests that failed:\n\n"+
		"| test | why |\n|---|---|\n%s\n\nBy the domain too, as npm gives them (`TestSDK` runs the first three by two addresses):\n\n%s",
		time.Now().UTC().Format("2 Jan 2006"), w.version, passed, live, strings.Join(rows, "\n"), others)
	if err := os.WriteFile("../../../docs/e2b-suite.md", []byte(out), 0o644); err != nil {
		t.Error(err)
	}
}

func sorted(m map[string]string) []string {
	var out []string
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// A suite is the SDK's folder in a network without an Internet, where this process plays the
// few hosts that the tests reach.
type suite struct {
	t                  *testing.T
	dir, ca, cert, key string
	version            string
}

// host is one of those that are played: its address, and how it answers.
type host struct {
	name, address string
	status        int
}

func internet() []host {
	return []host{{"1.1.1.1", "1.1.1.1", 301}, {"8.8.8.8", "8.8.8.8", 302}, {"connectivitycheck.gstatic.com", "9.9.9.9", 204}}
}

func newSuite(t *testing.T, dir string) *suite {
	t.Helper()
	if list, err := net.Interfaces(); err != nil || len(list) != 1 || os.Geteuid() != 0 {
		t.Fatalf("run it as root in a network of its own: unshare --net --mount: %v %v", list, err)
	}
	w := &suite{t: t, dir: dir}
	var p struct{ Version string }
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.version = p.Version
	tmp := t.TempDir()
	w.sh("ip link set lo up")
	names := domainNames()
	for _, h := range internet() {
		w.sh("ip addr add " + h.address + "/32 dev lo")
		names = append(names, h.name)
	}
	w.authority(tmp, names)
	w.trusted(tmp)
	// The suite has python for the python3 of Debian's.
	w.sh("command -v /usr/bin/python || { mkdir " + tmp + "/bin && ln -s python3 " + tmp + "/bin/python && chmod 755 " + tmp + " " + tmp + "/bin" +
		" && mount -t overlay overlay -o lowerdir=" + tmp + "/bin:/usr/bin /usr/bin; }")
	w.names()
	pair, err := tls.LoadX509KeyPair(w.cert, w.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range internet() {
		l, err := net.Listen("tcp", h.address+":443")
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(h.status) }))
		server.Listener.Close()
		server.Listener, server.TLS = l, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		server.StartTLS()
		t.Cleanup(server.Close)
	}
	return w
}

func domainNames() []string { return []string{suiteDomain, "*." + suiteDomain} }

// trusted has this machine ask for names here, and believe the authority.
func (w *suite) trusted(tmp string) {
	w.t.Helper()
	resolv, roots := filepath.Join(tmp, "resolv.conf"), filepath.Join(tmp, "roots.pem")
	w.write(resolv, []byte("nameserver 127.0.0.1\n"))
	w.sh("cat /etc/ssl/certs/ca-certificates.crt " + w.ca + " > " + roots + " && mount --bind " + roots + " /etc/ssl/certs/ca-certificates.crt" +
		" && mount --bind " + resolv + " $(readlink -f /etc/resolv.conf)")
	w.t.Cleanup(func() {
		out, err := exec.CommandContext(context.Background(), "sh", "-ec",
			"umount /etc/ssl/certs/ca-certificates.crt; umount $(readlink -f /etc/resolv.conf)").CombinedOutput()
		if err != nil {
			w.t.Errorf("%v: %s", err, out)
		}
	})
}

func (w *suite) write(file string, text []byte) {
	w.t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *suite) sh(script string) {
	w.t.Helper()
	if out, err := exec.CommandContext(w.t.Context(), "sh", "-ec", script).CombinedOutput(); err != nil {
		w.t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// authority makes an authority, and a certificate of it for all names.
func (w *suite) authority(dir string, names []string) {
	w.t.Helper()
	block := func(file, kind string, der []byte, err error) string {
		if err != nil {
			w.t.Fatal(err)
		}
		name := filepath.Join(dir, file)
		w.write(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		return name
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "suite"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	w.ca = block("ca.pem", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), key)
	w.cert = block("cert.pem", "CERTIFICATE", der, err)
	der, err = x509.MarshalPKCS8PrivateKey(key)
	w.key = block("key.pem", "PRIVATE KEY", der, err)
}

// names answers for the names of the suite, and for no other.
func (w *suite) names() {
	w.t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	w.t.Cleanup(func() { c.Close(); <-done })
	go func() {
		defer close(done)
		for buf := make([]byte, 1500); ; {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			if text, err := answerName(m); err == nil {
				_, _ = c.WriteTo(text, from) // it asks again
			}
		}
	}()
}

func answerName(m dnsmessage.Message) ([]byte, error) {
	q := m.Questions[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	m.Response, m.RecursionAvailable, m.Answers, m.Additionals = true, true, nil, nil
	address := ""
	if name == suiteDomain || strings.HasSuffix(name, "."+suiteDomain) {
		address = "127.0.0.1"
	}
	for _, h := range internet() {
		if name == h.name {
			address = h.address
		}
	}
	switch {
	case address == "":
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
			Body:   &dnsmessage.AResource{A: [4]byte(net.ParseIP(address).To4())},
		}}
	}
	return m.Pack()
}

// suiteConfig is what of the SDK's own configuration is about these tests.
const suiteConfig = `import { defineConfig } from 'vitest/config'
export default defineConfig({ test: {
  include: ['tests/**/*.test.ts'], exclude: ['tests/runtimes/**', 'tests/template/**', 'tests/bundle/**'],
  isolate: true, globals: false, testTimeout: 60_000, hookTimeout: 60_000, environment: 'node', maxWorkers: 2,
  setupFiles: ['tests/globalFetchFallback.setup.ts'], deps: { interopDefault: true },
} })
`

// run runs the suite and gives how each test ended.
func (w *suite) run(label string, env ...string) map[string]string {
	w.t.Helper()
	config, report := filepath.Join(w.dir, "vitest.cloister.mts"), filepath.Join(w.t.TempDir(), label+".json")
	w.write(config, []byte(suiteConfig))
	defer os.Remove(config)
	cmd := exec.CommandContext(w.t.Context(), "node_modules/.bin/vitest", "run", "--config", config, "--reporter=json", "--outputFile="+report)
	cmd.Dir, cmd.Env = w.dir, append(append(os.Environ(), "NODE_EXTRA_CA_CERTS="+w.ca), env...)
	began := time.Now()
	said, _ := cmd.CombinedOutput() // it fails where a test did
	text, err := os.ReadFile(report)
	var all struct {
		TestResults []struct {
			Name             string
			AssertionResults []struct {
				FullName, Status string
				FailureMessages  []string
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		w.t.Fatalf("%v: %s", err, said)
	}
	out := map[string]string{}
	for _, file := range all.TestResults {
		for _, a := range file.AssertionResults {
			first := strings.TrimPrefix(file.Name, w.dir+"/tests/") + ": " + a.FullName
			name := first
			for n := 2; out[name] != ""; n++ { // of a table, under one name
				name = fmt.Sprintf("%s (%d)", first, n)
			}
			out[name] = a.Status
			if a.Status == "failed" && label == "with" {
				why, _, _ := strings.Cut(strings.Join(a.FailureMessages, " "), "\n")
				w.t.Logf("%s: %.300s", name, why)
			}
		}
	}
	w.t.Logf("%s: %d tests in %s", label, len(out), time.Since(began).Round(time.Second))
	return out
}
