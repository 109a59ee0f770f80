package egress_test

import (
	"crypto/x509"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"cloister/egress"
	"cloister/egress/verdict"
	"cloister/internal/needs"
)

// gateway leads a real port to the world's engine, for programs that are no part
// of the test: who connects meant that very address.
func (w *world) gateway(ln net.Listener) {
	w.t.Helper()
	dst := netip.MustParseAddrPort(ln.Addr().String())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			w.dst.Store(c, dst)
			select {
			case w.conns <- c:
			case <-w.t.Context().Done():
				c.Close()
				return
			}
		}
	}()
	w.t.Cleanup(func() { ln.Close(); <-done })
}

// h2spec's verdicts, as JUnit has them.
type specReport struct {
	Suites []struct {
		Package string `xml:"package,attr"`
		Cases   []struct {
			Name    string    `xml:"classname,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func h2spec(t *testing.T, program, addr string) (failed map[string]bool, ran int) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.xml")
	// It exits with 1 where a case fails.
	out, _ := exec.CommandContext(t.Context(), program, "-h", host, "-p", port, "-t", "-k", "-o", "3", "-j", report).CombinedOutput()
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var r specReport
	if err := xml.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	failed = map[string]bool{}
	for _, s := range r.Suites {
		for _, c := range s.Cases {
			ran++
			if c.Failure != nil || c.Error != nil {
				failed[s.Package+" "+c.Name] = true
			}
		}
	}
	return failed, ran
}

// The border's HTTP/2 fails no case of h2spec that the same server passes when
// it is asked directly.
func TestH2Spec(t *testing.T) {
	program := needs.Program(t, "h2spec", "h2spec") // script/test has where it comes from
	ca := newTestCA(t)
	cert := ca.leaf(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }, readHost)
	addr := tlsServer(t, cert, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "hello, this is a body of some length")
	}), "h2", "http/1.1")
	direct, ran := h2spec(t, program, addr)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	through := ln.Addr().String() // h2spec names it in :authority
	border := newInspectedBy(t, ca, addr, func(c *egress.Config) { c.Hosts = map[string]string{through: addr} })
	border.set("127.0.0.1", read())
	border.gateway(ln)
	failed, again := h2spec(t, program, through)
	t.Logf("%d cases directly with %d failures, %d through the border with %d", ran, len(direct), again, len(failed))
	if ran < 100 || again != ran {
		t.Errorf("%d cases, then %d", ran, again)
	}
	if border.count(verdict.Request) < 10 {
		t.Errorf("%d requests were read", border.count(verdict.Request))
	}
	for name := range failed {
		if !direct[name] {
			t.Errorf("fails through the border alone: %s", name)
		}
	}
}
