//go:build linux

package loadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloister/audit"
)

// upstream is a server on loopback that remembers every path it was asked for.
type upstream struct {
	*httptest.Server
	count atomic.Int64
	open  atomic.Int64 // connections
	mu    sync.Mutex
	paths map[string]bool
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{paths: map[string]bool{}}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(u.answer))
	u.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			u.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			u.open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
	u.Start()
	t.Cleanup(u.Close)
	return u
}

// drained waits until what came over connections that are closed at the other end
// has been read, and tells how many requests there were so far.
func (u *upstream) drained(t *testing.T) int64 {
	t.Helper()
	// Connections are taken in the order in which they came: after this one's end
	// none of the others waits.
	c, err := net.Dial("tcp", u.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("the end of a connection: %v", err)
	}
	eventually(t, 20*time.Second, "the server has read to the end", func() bool { return u.open.Load() == 0 })
	return u.count.Load()
}

// answer is "ok", or trouble by the path.
func (u *upstream) answer(w http.ResponseWriter, r *http.Request) {
	u.count.Add(1)
	u.mu.Lock()
	u.paths[r.URL.Path] = true
	u.mu.Unlock()
	flush := func(text string) {
		_, _ = w.Write([]byte(text))
		_ = http.NewResponseController(w).Flush()
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/drip"): // a byte each 100 ms, for ever
		for r.Context().Err() == nil {
			flush("x")
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the trouble
		}
	case strings.HasPrefix(r.URL.Path, "/endless"):
		for r.Context().Err() == nil {
			flush(strings.Repeat("x", 1<<16))
		}
	case strings.HasPrefix(r.URL.Path, "/silent"):
		<-r.Context().Done()
	case strings.HasPrefix(r.URL.Path, "/reset"):
		w.Header().Set("Content-Length", "1000")
		flush("half")
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	default:
		flush("ok")
	}
}

// RS-12: sessions one after another and at once leave nothing.
func TestChurn(t *testing.T) {
	w := newWorld(t, nil)
	w.do("run", "--", "true") // makes the home
	pid := w.guardian()
	before, held := w.look(), w.weigh(pid)
	var took []time.Duration
	for range number(40, 1000) {
		began := time.Now()
		w.do("run", "--", "true")
		took = append(took, time.Since(began))
	}
	t.Logf("RS-12 %d runs in a row: p50 %v, p99 %v", len(took), quantile(took, 0.5), quantile(took, 0.99))
	var mu sync.Mutex
	var wide []time.Duration
	var wait sync.WaitGroup
	for range number(10, 50) {
		wait.Go(func() {
			began := time.Now()
			w.do("run", "--", "sleep", "1")
			mu.Lock()
			defer mu.Unlock()
			wide = append(wide, time.Since(began)-time.Second)
		})
	}
	wait.Wait()
	w.settled(before)
	w.back(pid, held, 2)
	after := w.weigh(pid)
	t.Logf("RS-12 %d at once: p50 %v, p99 %v; guardian %+v, was %+v", len(wide), quantile(wide, 0.5), quantile(wide, 0.99), after, held)
	w.verified()
}

// RS-11: whoever is killed, and when: what it left is gone within 5 s, or after
// the next start of a guardian where that was killed too. The bar is asserted in
// full, on a machine that does nothing else.
func TestOrphans(t *testing.T) {
	w := newWorld(t, nil)
	w.do("run", "--", "true")
	before := w.look()
	points := number(5, 20)
	for _, both := range []bool{false, true} {
		var took []time.Duration
		for n := range points {
			i := n * 20 / points // in short: further apart
			cmd := w.command("run", "--", "sleep", "100")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(i*i) * 2 * time.Millisecond) //nolint:forbidigo // the point in time is the case
			if both {
				w.killGuardian()
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if both {
				w.do("guardian", "start")
				w.do("run", "--", "true") // its stubs are shared with what was killed
			}
			took = append(took, w.settled(before))
			if t.Failed() {
				t.Fatalf("after a kill at point %d, of the guardian too: %v", i, both)
			}
		}
		slowest := quantile(took, 1)
		t.Logf("RS-11 %d kills of the shim, of the guardian too: %v: nothing left after %v, most %v (bar 5 s)", points, both, quantile(took, 0.5), slowest)
		if full && slowest > 5*time.Second {
			t.Errorf("what was left stayed for %v", slowest)
		}
	}
	// A guardian waits for the shims of the one before it, and until then nobody
	// can end them.
	eventually(t, 30*time.Second, "the guardian gives the dead up", func() bool {
		return strings.TrimSpace(string(w.do("list", "--json"))) == "[]"
	})
	w.verified()
}

// RS-01 and RS-02: a guardian that is killed under load, with five questions that
// nobody has answered. Nothing leaves during the outage, programs hear it soon,
// the next guardian takes over, the record stays whole and has everything that
// left. CLOISTER_LOAD_KILLS is another number of kills.
func TestKilledUnderLoad(t *testing.T) {
	u := newUpstream(t)
	w := newWorld(t, u.Listener.Addr())
	c, waiting := w.inside(), w.inside()
	kills := number(6, 60)
	if n, err := strconv.Atoi(os.Getenv("CLOISTER_LOAD_KILLS")); err == nil {
		kills = n
	}
	if a := c.do(order{Do: "get", URL: "http://up.example/first", Number: 1}); a.Good != 1 {
		t.Fatalf("%+v", a)
	}
	var deny, recover []time.Duration
	for i := range kills {
		asked := w.asked(waiting, i)
		// About 200 requests a second while it dies, at a point that moves.
		c.tell(order{Do: "get", URL: fmt.Sprintf("http://up.example/load%d", i), Number: 40, Every: 5 * time.Millisecond, Within: 300 * time.Millisecond})
		time.Sleep(time.Duration(50+i*7%150) * time.Millisecond) //nolint:forbidigo // the point in time is the case
		w.killGuardian()
		outage := u.drained(t)
		c.hear()
		if a := asked(); a.Good != 0 || a.Bad != 5 {
			t.Fatalf("of five questions that nobody answered: %+v", a)
		}
		before, still := inLine(strconv.Itoa(c.cmd.Process.Pid)), standstill()
		a := c.do(order{Do: "get", URL: "http://up.example/outage", Number: 1, Within: 20 * time.Second})
		waited, stood := inLine(strconv.Itoa(c.cmd.Process.Pid))-before, still()
		if n := u.count.Load() - outage; n != 0 || a.Good != 0 {
			t.Fatalf("%d requests left without a guardian: %+v", n, a)
		}
		if deny = append(deny, a.Slowest); a.Slowest > long {
			t.Logf("RS-01 kill %d: a refusal after %v, in which the shim was in line for a processor for %v and this program stood still for %v: %s", i, a.Slowest, waited, stood, a.LastError)
		}
		w.do("guardian", "start")
		recover = append(recover, eventually(t, 30*time.Second, "the session is back", func() bool {
			return c.do(order{Do: "get", URL: fmt.Sprintf("http://up.example/back%d", i), Number: 1, Within: time.Second}).Good == 1
		}))
		// What it asks before it is back is refused, and nobody would be asked.
		eventually(t, 30*time.Second, "the other session is back", func() bool {
			return waiting.do(order{Do: "get", URL: fmt.Sprintf("http://up.example/other%d", i), Number: 1, Within: time.Second}).Good == 1
		})
	}
	t.Logf("RS-01 %d kills: 0 requests during the outage; deny p50 %v, most %v (bar 1 s); recovery p50 %v, p95 %v (bar 3 s)",
		len(deny), quantile(deny, 0.5), quantile(deny, 1), quantile(recover, 0.5), quantile(recover, 0.95))
	// The bars are the design's on a machine that does nothing else.
	if most := quantile(recover, 0.95); most > 3*time.Second && full {
		t.Errorf("recovery takes %v", most)
	}
	if most := quantile(deny, 1); most > time.Second && full {
		t.Errorf("a program waits %v for a refusal", most)
	}
	recorded := map[string]bool{}
	for e, err := range audit.Read(filepath.Join(w.dir, "s", "cloister", "audit"), audit.Filter{Kind: audit.HTTPRequest}) {
		if err != nil {
			t.Error(err)
		}
		recorded[e.Path] = true
	}
	lost := 0
	for path := range u.paths {
		if !recorded[path] {
			lost++
		}
		if strings.HasPrefix(path, "/asked") {
			t.Errorf("%s left, which nobody had allowed", path)
		}
	}
	r := w.verified()
	t.Logf("RS-02 %d kills: %d records verify, %d of %d destinations seen upstream are not in it", len(deny), r.Records, lost, len(u.paths))
	if lost != 0 {
		t.Errorf("%d requests left without a record", lost)
	}
}

// standstill watches how long this program was not run at a time: what others of this
// machine took meanwhile is not what they waited for.
func standstill() (longest func() time.Duration) {
	done, over := make(chan struct{}), make(chan time.Duration)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		last, most := time.Now(), time.Duration(0)
		for {
			select {
			case <-done:
				over <- max(most, time.Since(last))
				return
			case <-tick.C:
				most, last = max(most, time.Since(last)), time.Now()
			}
		}
	}()
	return func() time.Duration { close(done); return <-over }
}

// asked has a program ask five things of a person, who looks on and answers none.
// What it gives waits for what the program was told.
func (w *world) asked(c *inside, round int) func() answer {
	w.t.Helper()
	watch := w.command("approvals", "watch", "--json")
	if err := watch.Start(); err != nil {
		w.t.Fatal(err)
	}
	end := func() {
		_ = watch.Process.Kill() // the second time it is gone
		_ = watch.Wait()
	}
	w.t.Cleanup(end)
	eventually(w.t, 20*time.Second, "somebody watches", func() bool {
		return strings.Contains(string(w.do("guardian", "status", "--json")), `"watchers": 1`)
	})
	c.tell(order{Do: "ask", URL: fmt.Sprintf("http://ask%%d.example/asked%d", round), Number: 5})
	eventually(w.t, 20*time.Second, "five questions wait", func() bool {
		var list []struct{}
		return json.Unmarshal(w.do("approvals", "list", "--json"), &list) == nil && len(list) == 5
	})
	if err := watch.Process.Signal(syscall.SIGSTOP); err != nil { // it would start another guardian at once
		w.t.Fatal(err)
	}
	return func() answer {
		end()
		return c.hear()
	}
}

// RS-06: connections that begin a request and do not go on harm nobody else,
// and are freed by the deadline.
func TestSlowClients(t *testing.T) {
	u := newUpstream(t)
	w := newWorld(t, u.Listener.Addr())
	good, bad := w.inside(), w.inside()
	bad.do(order{Do: "held"}) // it is there
	load := order{Do: "get", URL: "http://up.example/good", Number: number(200, 1000), Every: 5 * time.Millisecond, Keep: true}
	base := good.do(load)
	pid := w.guardian()
	before := w.weigh(pid)
	many := number(300, 2000)
	held := bad.do(order{Do: "hold", URL: "up.example:80", Number: many})
	during := w.weigh(pid)
	under := good.do(load)
	p99 := func(a answer) time.Duration { return quantile(a.Took, 0.99) }
	each := float64(during.kib-before.kib) / float64(max(1, held.Good))
	t.Logf("RS-06 %d slow clients (%d refused): good p99 %v, before %v; %.1f KiB each (bar 64)", held.Good, held.Bad, p99(under), p99(base), each)
	// The design's bar is for a machine that does nothing else; this one finds that
	// somebody waits for the slow ones at all.
	bar := 3*p99(base) + 5*time.Second
	if full {
		bar = p99(base)*3/2 + time.Millisecond
	}
	if p99(under) > bar {
		t.Errorf("good requests take %v, %v without the slow ones", p99(under), p99(base))
	}
	if under.Bad != 0 || base.Bad != 0 {
		t.Errorf("good requests failed: %+v", under)
	}
	if each > 64 {
		t.Errorf("%.1f KiB for each", each)
	}
	freed := eventually(t, 90*time.Second, "all are freed", func() bool { return bad.do(order{Do: "held"}).Good == 0 })
	t.Logf("RS-06 all freed after %v", freed.Round(100*time.Millisecond))
}

// RS-07: upstreams that drip, never end, say nothing or break off cost nothing
// once the program has gone.
func TestTroubledUpstream(t *testing.T) {
	u := newUpstream(t)
	w := newWorld(t, u.Listener.Addr())
	c := w.inside()
	c.do(order{Do: "get", URL: "http://up.example/ok", Number: 10})
	pid := w.guardian()
	before := w.weigh(pid)
	troubles := []string{"drip", "endless", "reset"}
	if full { // a program that has ended its sending may wait for a minute
		troubles = append(troubles, "silent")
	}
	for _, trouble := range troubles {
		a := c.do(order{Do: "get", URL: "http://up.example/" + trouble, Number: number(20, 50), Within: 150 * time.Millisecond})
		if a.Good != 0 {
			t.Errorf("%s: %+v", trouble, a)
		}
	}
	took := w.back(pid, before, pipes)
	t.Logf("RS-07 %d troubled answers: back at %d descriptors after %v; %+v, was %+v", len(troubles)*number(20, 50), before.descriptors, took, w.weigh(pid), before)
	if a := c.do(order{Do: "get", URL: "http://up.example/ok", Number: 10}); a.Good != 10 {
		t.Errorf("afterwards: %+v", a)
	}
}

// RS-13: reloads under load, one in ten invalid, decide nothing wrong.
func TestReloadStorm(t *testing.T) {
	u := newUpstream(t)
	w := newWorld(t, u.Listener.Addr())
	c, d := w.inside(), w.inside()
	text := fmt.Sprintf("version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  hosts: {up.example: %q, toggle.example: %[1]q}\n  allow: [{domain: up.example}%%s]\n", u.Listener.Addr().String())
	c.do(order{Do: "get", URL: "http://up.example/", Number: 1}) // both are there
	d.do(order{Do: "get", URL: "http://never.example/", Number: 1})
	pid := w.guardian()
	held := w.weigh(pid)
	n := number(30, 1000)
	c.tell(order{Do: "get", URL: "http://up.example/always", Number: 5 * n, Every: 2 * time.Millisecond})
	d.tell(order{Do: "get", URL: "http://never.example/", Number: 5 * n, Every: 2 * time.Millisecond})
	var took []time.Duration
	wrong := 0
	for i := range n {
		extra := ""
		if i%2 == 0 {
			extra = ", {domain: toggle.example}"
		}
		invalid := i%10 == 9
		if invalid {
			extra = ", {domain: \"*\"}, nonsense"
		}
		w.configure(fmt.Sprintf(text, extra))
		began := time.Now()
		err := w.command("guardian", "reload").Run()
		took = append(took, time.Since(began))
		if (err != nil) != invalid {
			t.Errorf("reload %d: %v", i, err)
		}
		out := string(w.do("policy", "explain", "toggle.example"))
		// An invalid file keeps the one before it, which was an even one.
		if allowed := strings.Contains(out, "allow"); !invalid && strings.HasPrefix(out, "allow") != (i%2 == 0) && allowed != (i%2 == 0) {
			wrong++
		}
	}
	always, never := c.hear(), d.hear()
	w.back(pid, held, pipes)
	t.Logf("RS-13 %d reloads: p50 %v, p99 %v; %d of %d right allowed, %d of %d wrong; guardian %+v, was %+v", n, quantile(took, 0.5), quantile(took, 0.99),
		always.Good, 5*n, never.Good+wrong, 5*n, w.weigh(pid), held)
	if always.Bad != 0 || never.Good != 0 || wrong != 0 {
		t.Errorf("wrong decisions: allowed %d failures (%s), denied %d passed, toggled %d wrong", always.Bad, always.LastError, never.Good, wrong)
	}
	w.verified()
}

// pipes are the descriptors of the few that Go keeps of spliced tunnels until it
// collects.
const pipes = 16

// back waits until a process holds no more descriptors than before, but for so many.
func (w *world) back(pid int, before weight, more int) time.Duration {
	w.t.Helper()
	began := time.Now()
	for w.weigh(pid).descriptors > before.descriptors+more {
		if time.Since(began) > 75*time.Second { // RS-07 has 60 s
			kinds := map[string]int{}
			list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
			for _, f := range list {
				to, _ := os.Readlink(f)
				kinds[strings.TrimRight(to, "[0123456789]")]++
			}
			w.t.Fatalf("%d descriptors, %d before: %v", w.weigh(pid).descriptors, before.descriptors, kinds)
		}
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // nothing else tells
	}
	return time.Since(began)
}

// RS-14: a flood of names that are denied, or that nobody can resolve, ends in
// refusals, soon, and in bounded memory.
func TestNameTrouble(t *testing.T) {
	w := newWorld(t, nil)
	c := w.inside()
	c.do(order{Do: "resolve", URL: "n%d.example", Number: 10})
	pid := w.guardian()
	before := w.weigh(pid)
	began := time.Now()
	n := number(500, 20000)
	flood := c.do(order{Do: "resolve", URL: "n%d.flood.example", Number: n})
	rate := float64(n) / time.Since(began).Seconds()
	// Allowed by name, so inside they have an address; outside nobody has.
	dead := c.do(order{Do: "get", URL: "http://x.unreachable.invalid/", Number: 5, Within: 30 * time.Second})
	after := w.weigh(pid)
	t.Logf("RS-14 %d denied names: %.0f a second, slowest %v; unresolvable: slowest refusal %v; guardian %d KiB, was %d", n, rate, flood.Slowest, dead.Slowest, after.kib, before.kib)
	if flood.Good != 0 || dead.Good != 0 {
		t.Errorf("answered: %+v, %+v", flood.Good, dead.Good)
	}
	if flood.Slowest > 20*time.Second || dead.Slowest > 25*time.Second {
		t.Error("a lookup hangs")
	}
	if after.kib-before.kib > 32<<10 {
		t.Errorf("%d KiB more", after.kib-before.kib)
	}
}
