package egress_test

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"cloister/egress/verdict"
)

// pipes counts the ends of pipes that this process holds.
func pipes(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	return n
}

func threads(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// pour sends n bytes and then a half-close, and counts what comes until the end.
func pour(c *net.TCPConn, n int64) (int64, error) {
	sent := make(chan error, 1)
	go func() {
		_, err := io.CopyN(c, zeros{}, n)
		sent <- errors.Join(err, c.CloseWrite())
	}()
	got, err := io.Copy(io.Discard, c)
	return got, errors.Join(err, <-sent)
}

// Many tunnels at once take no thread and at most one pipe for each direction, give
// the pipes back, and the record has their bytes to the last one.
func TestManyBusyTunnels(t *testing.T) {
	const tunnels, size = 24, 8<<20 + 1
	back := func(c net.Conn) { _, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) }
	w := newWorld(t, map[string]string{"db.test": serve(t, back).addr})
	pipesBefore, threadsBefore := pipes(t), threads(t)
	most := make(chan int, tunnels)
	var wait sync.WaitGroup
	for range tunnels {
		c := w.dial("db.test", 5000)
		write(t, c, "\x01") // so that it is known what it speaks
		readN(t, c, 1)
		wait.Go(func() {
			if got, err := pour(c, size); err != nil || got != size {
				t.Errorf("%d bytes came back of %d: %v", got, size, err)
			}
			most <- pipes(t)
		})
	}
	wait.Wait()
	for range tunnels {
		if n := <-most - pipesBefore; n > 2*2*tunnels {
			t.Errorf("%d ends of pipes for %d tunnels", n, tunnels)
		}
	}
	if n := threads(t) - threadsBefore; n > tunnels {
		t.Errorf("%d threads for %d tunnels", n, tunnels)
	}
	w.wholeFlows(tunnels, size+1)
	for deadline := time.Now().Add(20 * time.Second); pipes(t) > pipesBefore; { // net keeps them in a sync.Pool
		if time.Now().After(deadline) {
			t.Fatalf("%d ends of pipes stay", pipes(t)-pipesBefore)
		}
		runtime.GC()
	}
}

// wholeFlows waits for n flows, each of so many bytes both ways.
func (w *world) wholeFlows(n int, bytes int64) {
	w.t.Helper()
	seen := 0
	w.flow("all ends", func(verdict.Flow) bool {
		seen = 0
		for _, f := range w.flows { // under w.mu
			if f.Kind == verdict.Connect && f.Up == bytes && f.Down == bytes && f.Reason == "" {
				seen++
			}
		}
		return seen == n
	})
}

// A program that does not read holds its server back, and costs no time; what was
// sent comes whole when it reads again.
func TestStalledReader(t *testing.T) {
	const size = 256 << 20
	var sent atomic.Int64
	w := newWorld(t, map[string]string{"db.test": serve(t, func(c net.Conn) {
		buf := make([]byte, 256<<10)
		if _, err := io.ReadFull(c, buf[:1]); err != nil { // unread, it would make the end a reset
			return
		}
		for left := int64(size); left > 0; {
			n, err := c.Write(buf[:min(left, int64(len(buf)))])
			sent.Add(int64(n))
			if left -= int64(n); err != nil {
				return
			}
		}
	}).addr})
	c := w.dial("db.test", 5000)
	write(t, c, "\x01")
	// Two looks with nothing between them: the buffers are full, or somebody got no turn.
	for last, deadline := int64(-1), time.Now().Add(20*time.Second); sent.Load() == 0 || sent.Load() != last; {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes sent, and it goes on", sent.Load())
		}
		last = sent.Load()
		time.Sleep(200 * time.Millisecond) //nolint:forbidigo // nothing may happen in this time
	}
	worked := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		before := worked()
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // nothing may happen in this time
		d := worked() - before
		if d <= 250*time.Millisecond {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it works %v in 500 ms while nobody reads, and goes on", d)
		}
	}
	if n := sent.Load(); n > size/2 {
		t.Errorf("%d bytes are held for a program that does not read", n)
	}
	if n, err := io.Copy(io.Discard, c); err != nil || n != size {
		t.Errorf("%d bytes of %d, %v", n, size, err)
	}
}

// What is small is not held back behind bulk: neither for more to come nor by a
// timer. The fastest of many, so that a busy machine does not fail it.
func TestSmallAfterBulk(t *testing.T) {
	const size = 64 << 20
	w := newWorld(t, map[string]string{"db.test": serve(t, func(c net.Conn) {
		if _, err := io.CopyN(io.Discard, c, 1+size); err == nil {
			_, _ = io.Copy(c, struct{ io.Reader }{c})
		}
	}).addr})
	c := w.dial("db.test", 5000)
	write(t, c, "\x01")
	if _, err := io.CopyN(c, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	readAfter := func() time.Duration {
		began := time.Now()
		write(t, c, "x")
		readN(t, c, 1)
		return time.Since(began)
	}
	readAfter() // when the server has it all
	fastest := time.Hour
	for range 200 {
		fastest = min(fastest, readAfter())
	}
	if fastest > 20*time.Millisecond { // a delayed ACK, or a segment held back, takes 40 ms and more
		t.Errorf("the fastest of 200 bytes there and back took %v", fastest)
	}
}

// A connection that breaks amid bulk breaks on the other side, as it would have
// without a gate: a torn stream never looks like a whole one.
func TestResetAmidBulk(t *testing.T) {
	endless := func(c net.Conn) error {
		_, err := io.Copy(c, zeros{})
		return err
	}
	t.Run("by the program", func(t *testing.T) {
		ended := make(chan error, 1)
		w := newWorld(t, map[string]string{"db.test": serve(t, func(c net.Conn) {
			_, err := io.Copy(io.Discard, c)
			ended <- err
		}).addr})
		c := w.dial("db.test", 5000)
		if _, err := io.CopyN(c, zeros{}, 16<<20); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the server reads %v, not a reset", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the server sees no end")
		}
	})
	t.Run("by the server", func(t *testing.T) {
		w := newWorld(t, map[string]string{"db.test": serve(t, func(c net.Conn) {
			_, _ = io.CopyN(io.Discard, c, 16<<20)
			_ = c.(*net.TCPConn).SetLinger(0)
		}).addr})
		c := w.dial("db.test", 5000)
		if err := endless(c); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
			t.Errorf("the program writes until %v", err)
		}
	})
}
