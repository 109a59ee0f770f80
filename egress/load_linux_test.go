package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloister/egress"
	"cloister/egress/verdict"
)

// What RESILIENCE asks of inspection, against engines in a process of their own, so
// that its memory is theirs alone. The short form runs always; CLOISTER_TEST_LONG=1
// is the long one, whose figures are in docs/performance.md.

func long() bool { return os.Getenv("CLOISTER_TEST_LONG") != "" }

// order is what a process of engines is made of, as JSON in its environment.
type order struct {
	Engines     int
	Upstream    string
	Roots       []byte // PEM
	Connections int
	Memory      int64 // debug.SetMemoryLimit; 0 for none
}

const orderKey = "CLOISTER_EGRESS_TEST_ENGINES"

// TestEngineProcess is that process; by itself it tests nothing.
func TestEngineProcess(t *testing.T) {
	text := os.Getenv(orderKey)
	if text == "" {
		return
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	if o.Memory > 0 {
		debug.SetMemoryLimit(o.Memory)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.Roots)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	out := json.NewEncoder(os.Stdout)
	for range o.Engines {
		session, err := new(egress.CAs).Take()
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := netip.MustParseAddrPort(ln.Addr().String())
		e, err := egress.New(egress.Config{
			Session: "load", Decider: yes{}, Journal: yes{}, CA: session, Roots: roots, Hosts: map[string]string{at.String(): o.Upstream},
			OriginalDst: func(net.Conn) (netip.AddrPort, error) { return at, nil },
			Limits:      egress.Limits{Connections: o.Connections, Idle: time.Hour, Handshake: time.Minute},
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := e.Serve(ctx, egress.Listeners{TCP: []net.Listener{ln}}); err != nil {
				t.Error(err)
			}
		})
		if err := out.Encode(engineAt{at.String(), session.PEM()}); err != nil {
			t.Fatal(err)
		}
	}
	// A line asks for the memory, the end ends.
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		debug.FreeOSMemory()
		_ = out.Encode(memory(t))
	}
	cancel()
	all.Wait()
}

// yes allows everything, to be read, and keeps no record.
type yes struct{}

func (yes) Decide(context.Context, verdict.Query) verdict.Answer { return read() }
func (yes) Closed(verdict.Flow)                                  {}
func (yes) Refused(verdict.Flow) error                           { return nil }

type engineAt struct {
	Addr string
	CA   []byte
}

// used is what a process holds, in bytes.
type used struct{ Now, Peak int64 }

func memory(t *testing.T) used {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Error(err)
	}
	var u used
	for line := range strings.Lines(string(text)) {
		var n int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &n); err == nil {
			u.Now = n << 10
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &n); err == nil {
			u.Peak = n << 10
		}
	}
	return u
}

// engines is the process from outside.
type engines struct {
	t       *testing.T
	in      io.Writer
	out     *json.Decoder
	at      []engineAt
	configs []*tls.Config
}

// startEngines starts a process of engines before a server.
func startEngines(t *testing.T, o order, ca *testCA) *engines {
	t.Helper()
	o.Roots = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(context.WithoutCancel(t.Context()), "/proc/self/exe", "-test.run=^TestEngineProcess$", "-test.timeout=10m")
	c.Env = append(os.Environ(), orderKey+"="+string(text))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	e := &engines{t: t, in: in, out: json.NewDecoder(out)}
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, io.MultiReader(e.out.Buffered(), out))
		if err := c.Wait(); err != nil {
			t.Errorf("the engines: %v\n%s", err, errs.String())
		}
	})
	for range o.Engines {
		var at engineAt
		if err := e.out.Decode(&at); err != nil {
			t.Fatalf("%v\n%s", err, errs.String())
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(at.CA)
		e.at, e.configs = append(e.at, at), append(e.configs, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(4)})
	}
	return e
}

func (e *engines) memory() used {
	e.t.Helper()
	if _, err := io.WriteString(e.in, "\n"); err != nil {
		e.t.Fatal(err)
	}
	var u used
	if err := e.out.Decode(&u); err != nil {
		e.t.Fatal(err)
	}
	return u
}

// kept is one connection, kept alive.
type kept struct {
	conn *tls.Conn
	r    *bufio.Reader
}

func (e *engines) open(i int) (*kept, error) {
	raw, err := net.Dial("tcp", e.at[i].Addr)
	if err != nil {
		return nil, err
	}
	_ = raw.SetDeadline(time.Now().Add(2 * time.Minute))
	c := tls.Client(raw, e.configs[i])
	if err := c.Handshake(); err != nil {
		raw.Close()
		return nil, err
	}
	k := &kept{conn: c}
	if _, err := k.get(e.at[i].Addr); err != nil {
		c.Close()
		return nil, err
	}
	return k, nil
}

// get asks once, and says how long the answer took.
func (k *kept) get(host string) (time.Duration, error) {
	if k.r == nil {
		k.r = bufio.NewReaderSize(k.conn, 512)
	}
	began := time.Now()
	if _, err := io.WriteString(k.conn, "GET /x HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(k.r, nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return time.Since(began), err
}

// openAll opens n connections, a few at a time.
func (e *engines) openAll(n int) []*kept {
	e.t.Helper()
	out := make([]*kept, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && !e.t.Failed(); i = next.Add(1) - 1 {
				k, err := e.open(int(i) % len(e.at))
				if err != nil {
					e.t.Errorf("connection %d: %v", i, err)
					return
				}
				k.r = nil // whoever is idle needs no buffer
				out[i] = k
			}
		})
	}
	all.Wait()
	e.t.Cleanup(func() {
		for _, k := range out {
			if k != nil {
				k.conn.NetConn().Close()
			}
		}
	})
	if e.t.Failed() {
		e.t.FailNow()
	}
	return out
}

func percentile(d []time.Duration, p int) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[min(len(d)*p/100, len(d)-1)]
}

// hello answers everything.
func hello(t testing.TB, ca *testCA) string {
	return tlsServer(t, ca.leaf(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }, readHost),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "hello")
		}))
}

// RS-08: connections that are read and idle cost little, requests beside them take
// no longer, and one too many is refused at once.
func TestIdleInspected(t *testing.T) {
	n, asked := 300, 200
	if long() {
		n, asked = 10000, 5000
		var lim syscall.Rlimit // each has two ends here, and two in the engine
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
			t.Fatal(err)
		}
		n = min(n, int(lim.Max-200)/2) // no machine has more descriptors than that
	}
	ca := newTestCA(t)
	e := startEngines(t, order{Engines: 1, Upstream: hello(t, ca), Connections: n + 2}, ca)
	busy := e.openAll(1)[0]
	measure := func() []time.Duration {
		var took []time.Duration
		tick := time.NewTicker(2 * time.Millisecond) // 500 in a second
		defer tick.Stop()
		for range asked {
			d, err := busy.get(e.at[0].Addr)
			if err != nil {
				t.Fatal(err)
			}
			took = append(took, d)
			<-tick.C
		}
		return took
	}
	alone := measure()
	before := e.memory()
	idle := e.openAll(n)
	after := e.memory()
	each := (after.Now - before.Now) / int64(n)
	beside := measure()
	t.Logf("%d idle inspected connections: %d bytes each; a request alone p50 %v p99 %v, beside them p50 %v p99 %v",
		n, each, percentile(alone, 50), percentile(alone, 99), percentile(beside, 50), percentile(beside, 99))
	most := int64(64 << 10)
	if !long() {
		most *= 3 // of a few, which what the process holds besides outweighs
	}
	if each > most && !raceEnabled {
		t.Errorf("%d bytes each, want at most %d", each, most)
	}
	e.openAll(1) // the last that there is room for
	began := time.Now()
	if k, err := e.open(0); err == nil {
		k.conn.Close()
		t.Error("one too many is let in")
	} else if time.Since(began) > 10*time.Second {
		t.Errorf("one too many is told after %v", time.Since(began))
	}
	for _, k := range idle[:10] {
		if _, err := k.get(e.at[0].Addr); err != nil {
			t.Errorf("an idle connection afterwards: %v", err)
		}
	}
}

// RS-10: what one session does to its engine, another hardly notices.
func TestNoisyNeighbour(t *testing.T) {
	asked := 300
	if long() {
		asked = 5000
	}
	ca := newTestCA(t)
	e := startEngines(t, order{Engines: 2, Upstream: hello(t, ca), Connections: 64}, ca)
	quiet, err := e.open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.conn.Close()
	measure := func() []time.Duration {
		var took []time.Duration
		for range asked {
			d, err := quiet.get(e.at[0].Addr)
			if err != nil {
				t.Fatal(err)
			}
			took = append(took, d)
		}
		return took
	}
	alone := measure()
	stop := make(chan struct{})
	var all sync.WaitGroup
	var noise, refused atomic.Int64
	for range 8 { // what its cap allows, and more
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				k, err := e.open(1)
				if err != nil {
					refused.Add(1)
					continue
				}
				for range 20 {
					if _, err := k.get(e.at[1].Addr); err == nil {
						noise.Add(1)
					}
				}
				k.conn.Close()
			}
		})
	}
	beside := measure()
	close(stop)
	all.Wait()
	t.Logf("a request alone p50 %v p99 %v, beside a neighbour with %d requests (%d connections refused) p50 %v p99 %v",
		percentile(alone, 50), percentile(alone, 99), noise.Load(), refused.Load(), percentile(beside, 50), percentile(beside, 99))
	if noise.Load() == 0 {
		t.Error("the neighbour made no noise")
	}
	// Two processors are shared by nine programs here: no bar on a time but a far one.
	if p := percentile(beside, 99); p > 5*time.Second {
		t.Errorf("p99 %v", p)
	}
}

// RS-19: bodies go through, and are never held; what is compressed stays so.
func TestBodiesAreNotHeld(t *testing.T) {
	parallel, size := 40, int64(8<<20)
	if long() {
		parallel, size = 1000, int64(8<<20)
	}
	ca := newTestCA(t)
	var got atomic.Int64
	bomb := bytes.Repeat([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0}, 8<<10)
	addr := tlsServer(t, ca.leaf(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }, readHost),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			got.Add(n)
			if r.Method == http.MethodPost {
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			for left := size; left > 0; left -= int64(len(bomb)) {
				if _, err := w.Write(bomb); err != nil {
					return
				}
			}
		}))
	e := startEngines(t, order{Engines: 1, Upstream: addr, Connections: 2 * parallel, Memory: 512 << 20}, ca)
	var all sync.WaitGroup
	for i := range parallel {
		all.Go(func() {
			c := &http.Client{Transport: &http.Transport{TLSClientConfig: e.configs[0].Clone(), DisableCompression: true}, Timeout: 9 * time.Minute}
			defer c.CloseIdleConnections()
			url := "https://" + e.at[0].Addr + "/x"
			if i%2 == 0 {
				body := io.LimitReader(randomly{}, size)
				resp, err := c.Post(url, "application/octet-stream", body)
				if err != nil {
					t.Errorf("up: %v", err)
					return
				}
				resp.Body.Close()
				return
			}
			resp, err := c.Get(url)
			if err != nil {
				t.Errorf("down: %v", err)
				return
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); err != nil || n < size {
				t.Errorf("down: %d bytes, %v", n, err)
			}
		})
	}
	all.Wait()
	u := e.memory()
	t.Logf("%d bodies of %d MiB at once: at most %d MiB, %d MiB afterwards", parallel, size>>20, u.Peak>>20, u.Now>>20)
	if want := int64((parallel+1)/2) * size; got.Load() != want {
		t.Errorf("%d bytes went up, want %d", got.Load(), want)
	}
	if most := int64(400 << 20); u.Peak > most && !raceEnabled {
		t.Errorf("%d MiB, want at most 400", u.Peak>>20)
	}
}

// randomly is a body that does not compress, cheaply.
type randomly struct{}

func (randomly) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 512 {
		p[i] = byte(rand.Uint32())
	}
	return len(p), nil
}
