//go:build linux

package loadtest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	bin "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"

	"cloister/escape/hoard"
	"cloister/internal/cgroup"
	"cloister/internal/needs"
)

// zeros are a body without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// stays gives what it has, and then nothing until its time is over.
type stays struct {
	first io.Reader
	until time.Time
}

func (s *stays) Read(p []byte) (int, error) {
	if n, err := s.first.Read(p); n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	time.Sleep(time.Until(s.until)) //nolint:forbidigo // to stay away is the case
	return 0, io.ErrUnexpectedEOF
}

// packed is the beginning of a body that unpacks to 20 MiB of zeros, and needs
// the largest window there is.
func packed(coding string) []byte {
	var out bytes.Buffer
	switch coding {
	case "zstd":
		out.Write([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3}) // RFC 8878 3.1.1.1: a window of 8 MiB
		for range 160 {                                       // blocks of one byte that stands for 128 KiB
			out.Write([]byte{2, 0, 0x10, 0})
		}
	case "br":
		w := brotli.NewWriterOptions(&out, brotli.WriterOptions{Quality: 5, LGWin: 24})
		_, _ = io.CopyN(w, zeros{}, 20<<20)
		_ = w.Flush()
	default:
		w := gzip.NewWriter(&out)
		_, _ = io.CopyN(w, zeros{}, 20<<20)
		_ = w.Flush()
	}
	return out.Bytes()
}

// ask1 asks once.
func (o order) ask1(c *http.Client) (*http.Response, error) {
	if o.Up == 0 && o.Packed == "" {
		return c.Get(o.URL)
	}
	body := io.LimitReader(zeros{}, o.Up)
	kind := "application/octet-stream"
	if o.JSON {
		kind = "application/json"
		const head, tail = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":"`, `"}}}`
		body = io.MultiReader(strings.NewReader(head), io.LimitReader(letters{}, o.Up-int64(len(head)+len(tail))), strings.NewReader(tail))
	}
	if o.Packed != "" {
		body = &stays{bytes.NewReader(o.bomb), time.Now().Add(o.For)}
	}
	req, err := http.NewRequest(http.MethodPost, o.URL, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "application/json, text/event-stream")
	if req.ContentLength = o.Up; o.Packed != "" {
		req.Header.Set("Content-Encoding", o.Packed)
		req.ContentLength = -1
	}
	return c.Do(req)
}

// letters are a text without end.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// frames is a WebSocket that sends one frame of a terabyte, and reads what comes.
func (o order) frames() error {
	at, err := url.Parse(o.URL)
	if err != nil {
		return err
	}
	c, err := tls.Dial("tcp", at.Host, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(o.Within))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", at.Path, at.Host)
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return errors.New(resp.Status)
	}
	go func() {
		_, _ = c.Write(bin.BigEndian.AppendUint64([]byte{2, 0x80 | 127}, 1<<40))
		_, _ = io.Copy(c, zeros{})
	}()
	n, err := io.Copy(io.Discard, r)
	if errors.Is(err, os.ErrDeadlineExceeded) && n > 1<<16 {
		return nil
	}
	return fmt.Errorf("%d bytes came: %w", n, err)
}

// socket is the server's side of frames.
func socket(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	go func() { _, _ = io.Copy(io.Discard, c) }()
	_, _ = c.Write(bin.BigEndian.AppendUint64([]byte{2, 127}, 1<<40))
	_, _ = io.Copy(c, zeros{})
}

// event is the server's side of a frame of MCP without end.
func event(w http.ResponseWriter, size int64) {
	w.Header().Set("Content-Type", "text/event-stream")
	const head, tail = `data: {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`, "\"}]}}\n\n"
	_, _ = io.Copy(w, io.MultiReader(strings.NewReader(head), io.LimitReader(letters{}, size-int64(len(head)+len(tail))), strings.NewReader(tail)))
}

// hoard has so many peers of a kind.
func (o order) hoard() (a answer) {
	kinds := hoard.Kinds()
	i := slices.IndexFunc(kinds, func(k hoard.Kind) bool { return k.Name == o.Kind })
	a.Good = hoard.Client(context.Background(), kinds[i], o.URL, strings.TrimSuffix(o.URL, ":443"), "/", o.Wide, o.For)
	return a
}

// RS-19: what is large, or unpacks to much, costs little memory, and what cannot be
// judged in that goes nowhere. As root the guardian has 512 MiB, as the case wants.
func TestGuardianMemory(t *testing.T) {
	w := newWorld(t, nil)
	pair := w.pair("read.example", "held.example", "mcp.example")
	at := w.server(pair)
	w.configure(fmt.Sprintf("version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  hosts: {read.example: %q, held.example: %[1]q, mcp.example: %[1]q}\n  upstream_ca: [%q]\n"+
		"  max_request_bytes: 2GiB\n  allow: [{domain: read.example, methods: [GET, POST]}, {domain: held.example}, {domain: mcp.example}]\n"+
		"secrets: [{name: HELD, hosts: [held.example], header: Authorization}]\nmcp: {servers: [{url: \"https://mcp.example/mcp\", allow_tools: [\"*\"]}]}\n", at, pair))
	value := filepath.Join(w.dir, "value")
	if err := os.WriteFile(value, []byte("CanaryCanaryCanary"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.do("secret", "set", "HELD", "--file", value)
	w.do("guardian", "reload")
	pid := w.guardian()
	w.hold(pid, 512<<20)
	c, other := w.inside(), w.inside()
	crowd := []*inside{c, w.inside(), w.inside(), w.inside()}
	for _, host := range []string{"read", "held"} {
		if a := c.do(order{Do: "load", URL: "https://" + host + ".example/"}); a.Good == 0 {
			t.Fatalf("control %s: %+v", host, a)
		}
	}
	lasts := time.Duration(number(200, 8000)) * time.Millisecond
	wide := number(10, 1000)
	small := order{Do: "load", URL: "https://mcp.example/mcp", Up: 1000, JSON: true}
	for _, o := range []order{small, {Do: "load", URL: "https://mcp.example/mcp?1000", Size: 1000}} {
		if a := c.do(o); a.Good == 0 {
			t.Fatalf("control mcp: %+v", a)
		}
	}
	frame := int64(number(9, 100)) << 20
	type kind struct {
		name string
		do   order
		none bool // none may come through
	}
	kinds := []kind{
		{"bodies of 1 GiB up", order{Do: "load", URL: "https://read.example/", Up: 1 << 30}, false},
		{"bodies of 1 GiB down", order{Do: "load", URL: "https://read.example/1073741824"}, false},
		{"bodies of 1 GiB up, searched for secrets", order{Do: "load", URL: "https://held.example/", Up: 1 << 30}, false},
		{"bodies of 1 GiB down, searched for secrets", order{Do: "load", URL: "https://held.example/1073741824"}, false},
		{"bombs of gzip", order{Do: "load", URL: "https://held.example/", Packed: "gzip"}, true},
		{"bombs of zstd", order{Do: "load", URL: "https://held.example/", Packed: "zstd"}, true},
		{"bombs of br", order{Do: "load", URL: "https://held.example/", Packed: "br"}, true},
		{"WebSockets with a frame of 1 TiB", order{Do: "frames", URL: "https://read.example:443/ws"}, false},
		{"WebSockets with a frame of 1 TiB, searched for secrets", order{Do: "frames", URL: "https://held.example:443/ws"}, false},
		{"large frames of MCP up", order{Do: "load", URL: "https://mcp.example/mcp", Up: frame, JSON: true}, true},
		{"large frames of MCP down", order{Do: "load", URL: fmt.Sprintf("https://mcp.example/mcp?%d", frame), Size: frame}, true},
	}
	for _, k := range hoard.Kinds() {
		kinds = append(kinds, kind{"peers in each of four sessions, each of which " + k.Does, order{Do: "hoard", Kind: k.Name, URL: "held.example:443"}, false})
	}
	pick := os.Getenv("CLOISTER_LOAD_KIND")
	for _, k := range kinds {
		if !strings.Contains(k.name, pick) || !full && strings.HasPrefix(k.name, "bodies") { // egress's tests have those in short
			continue
		}
		k.do.Wide, k.do.For, k.do.Within = wide, lasts, lasts
		by := crowd[:1]
		if k.do.Do == "hoard" {
			by = crowd
		}
		for _, c := range by {
			c.tell(k.do)
		}
		peak := w.most(pid)
		var a answer
		for _, c := range by {
			one := c.hear()
			a.Good, a.LastError = a.Good+one.Good, one.LastError
		}
		most := peak()
		t.Logf("RS-19 %d %s: %d whole, the guardian has %d MiB at most (bar 256); %s", wide, k.name, a.Good, most>>10, a.LastError)
		if k.none && a.Good > 0 {
			t.Errorf("%s: %d came through", k.name, a.Good)
		}
		if most > 256<<10 {
			t.Errorf("%s: the guardian has %d MiB", k.name, most>>10)
		}
		eventually(t, time.Minute, "another session is served after "+k.name, func() bool {
			return other.do(order{Do: "load", URL: "https://read.example/"}).Good > 0
		})
		for _, c := range by { // what comes next shall find them as this kind did
			eventually(t, time.Minute, "the same session is served by HTTP/2 after "+k.name, func() bool {
				return c.do(order{Do: "hoard", Kind: "heads", URL: "held.example:443", Wide: 1, For: 300 * time.Millisecond}).Good > 0
			})
		}
	}
	if now := w.guardian(); now != pid {
		t.Errorf("the guardian %d has ended, now it is %d", pid, now)
	}
	w.verified()
}

// most looks at a process from now on; what it gives ends that, and says how many KiB the
// process had at most.
func (w *world) most(pid int) func() int {
	most, end, ended := 0, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, w.weigh(pid).kib)
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return func() int { close(end); <-ended; return most }
}

// hold brings a process into a control group with so much memory, where root tests.
func (w *world) hold(pid int, most int64) {
	w.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	g, err := cgroup.New("cloister-load-"+strconv.Itoa(os.Getpid()), cgroup.Bounds{Memory: most})
	if err != nil {
		needs.Missing(w.t, "root", err)
	}
	if err := g.Add(pid); err != nil {
		w.t.Fatal(errors.Join(err, g.Close()))
	}
	w.t.Cleanup(func() {
		if g.OutOfMemory() {
			w.t.Error("the kernel ended the guardian for want of memory")
		}
		if err := g.Close(); err != nil {
			w.t.Error(err)
		}
	})
}
