//go:build linux

package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A passage is a way to the server, and what a client is that goes it.
type passage struct {
	name   string
	client *inside
	url    string
	pid    int // what stands between; 0 for nothing
}

// RS-09: what passes through, read and not read, beside the direct way and, in full,
// mitmproxy: 1 KiB, 64 KiB and 10 MiB by HTTP/1.1 and HTTP/2.
func TestThroughput(t *testing.T) {
	w := newWorld(t, nil)
	pair := w.pair("read.example", "tunnel.example")
	at := w.server(pair)
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	w.configure(fmt.Sprintf("version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  hosts: {read.example: %q, tunnel.example: %[1]q}\n  upstream_ca: [%q]\n"+
		"  allow: [{domain: read.example, ports: [%s], methods: [GET]}, {domain: tunnel.example, ports: [%[3]s], tls: tunnel}]\n", at, pair, port))
	w.do("guardian", "reload")
	trust := "SSL_CERT_FILE=" + pair
	pid := w.guardian()
	ways := []passage{
		{"direct", w.outside(trust), "https://" + at, 0},
		{"tunnel", w.inside("-e", trust, "--expose", pair), "https://tunnel.example:" + port, pid},
		{"read", w.inside(), "https://read.example:" + port, pid},
	}
	if full {
		if p, ok := w.mitmproxy(pair, at); ok {
			ways = append(ways, p)
		}
	}
	lasts := time.Duration(number(10, 2000)) * time.Millisecond
	t.Logf("RS-09 %-7s %-4s %7s %9s %9s %9s %12s", "way", "", "bytes", "p50", "a second", "MB/s", "MB/s a core")
	for _, h2 := range []bool{false, true} {
		for _, size := range []int64{1 << 10, 64 << 10, int64(number(256<<10, 10<<20))} {
			for _, p := range ways {
				p.tell(t, order{URL: fmt.Sprintf("%s/%d", p.url, size), Size: size, H2: h2, For: lasts})
			}
		}
	}
	for _, p := range ways {
		a := p.client.do(order{Do: "load", URL: p.url + "/1024", Size: 1024, For: lasts, Wide: number(4, 16), Within: 2 * time.Minute})
		if a.Bad > 0 {
			t.Errorf("%s: %s", p.name, a.LastError)
		}
		t.Logf("RS-09 %-7s new connections, one request each: %.0f a second", p.name, float64(a.Good)/a.Lasted.Seconds())
	}
	w.verified()
}

// tell asks one after another and sixteen at once, and tells what came.
func (p passage) tell(t *testing.T, o order) {
	t.Helper()
	o.Do, o.Keep, o.Wide, o.Within = "load", true, 1, 2*time.Minute
	one := p.client.do(o)
	o.Wide = number(4, 16)
	before := busy(p.pid)
	many := p.client.do(o)
	core := "-"
	if p.pid > 0 {
		core = fmt.Sprintf("%.0f", float64(many.Good)*float64(o.Size)/1e6/max(0.01, (busy(p.pid)-before).Seconds()))
	}
	if one.Bad+many.Bad > 0 || one.Good == 0 {
		t.Errorf("%s: %d of %d: %s%s", p.name, one.Bad+many.Bad, one.Good+many.Good, one.LastError, many.LastError)
		return
	}
	rate := float64(many.Good) / many.Lasted.Seconds()
	t.Logf("RS-09 %-7s h%s %9d %9v %9.0f %9.0f %12s", p.name, map[bool]string{false: "1", true: "2"}[o.H2], o.Size,
		quantile(one.Took, 0.5).Round(time.Microsecond), rate, rate*float64(o.Size)/1e6, core)
}

// busy is the processor time that a process has had. The kernel counts it in
// hundredths of a second (proc(5)).
func busy(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, uerr := strconv.Atoi(fields[11])
	system, serr := strconv.Atoi(fields[12])
	if errors.Join(uerr, serr) != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// mitmproxy is the peer, where the machine has it.
func (w *world) mitmproxy(pair, at string) (passage, bool) {
	w.t.Helper()
	path, err := exec.LookPath("mitmdump")
	if err != nil {
		w.t.Log("RS-09 there is no mitmproxy here")
		return passage{}, false
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	dir := filepath.Join(w.dir, "mitm")
	cmd := exec.CommandContext(context.WithoutCancel(w.t.Context()), path, "-q", "--listen-host", "127.0.0.1", "-p", port,
		"--set", "confdir="+dir, "--set", "ssl_verify_upstream_trusted_ca="+pair)
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	root := filepath.Join(dir, "mitmproxy-ca-cert.pem")
	eventually(w.t, time.Minute, "mitmproxy listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		_, there := os.Stat(root)
		return err == nil && there == nil
	})
	// Go asks no proxy for what is on loopback, whatever the environment says.
	client := w.outside("SSL_CERT_FILE="+root, proxyKey+"=http://127.0.0.1:"+port)
	return passage{"mitmproxy", client, "https://" + at, cmd.Process.Pid}, true
}

// proxyKey names a client's proxy.
const proxyKey = "CLOISTER_LOAD_PROXY"
