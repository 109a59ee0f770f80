package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// processor is the time that this process has used of processors.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs one after another, with the processor time and the allocations of each,
// those of client and server included: they are the same at every commit, so that a
// difference of two commits is the engine's.
func (w *world) measure(b *testing.B, one func()) {
	b.Helper()
	one()
	b.ReportAllocs()
	b.ResetTimer()
	before := processor(b)
	for range b.N {
		one()
		w.mu.Lock()
		w.queries, w.flows = w.queries[:0], w.flows[:0]
		w.mu.Unlock()
	}
	b.StopTimer()
	b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
}

// answers writes the same answer to each head that comes.
func answers(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			return
		}
	}
}

func BenchmarkCost(b *testing.B) {
	ca := newTestCA(b)
	leaf := ca.leaf(nil, readHost)
	secured := serve(b, func(c net.Conn) { answers(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{leaf}})) })
	plain := serve(b, answers)
	request := fmt.Sprintf("GET /v1/things?page=1 HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: */*\r\n"+
		"Authorization: Bearer 0123456789abcdef\r\n\r\n", readHost)
	exchange := func(b *testing.B, c net.Conn, r *bufio.Reader) {
		write(b, c, request)
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := r.Discard(2); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("http1", func(b *testing.B) {
		w := newInspectedBy(b, ca, secured.addr)
		c := w.open("http/1.1")
		r := bufio.NewReader(c)
		w.measure(b, func() { exchange(b, c, r) })
	})
	b.Run("plain", func(b *testing.B) {
		w := newWorld(b, map[string]string{readHost: plain.addr})
		c := w.dial(readHost, 80)
		r := bufio.NewReader(c)
		w.measure(b, func() { exchange(b, c, r) })
	})
	b.Run("http2", func(b *testing.B) {
		w := newInspectedBy(b, ca, tlsServer(b, leaf, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{}")
		}), "h2"))
		client := w.client2()
		w.measure(b, func() {
			resp, err := client.Get("https://" + readHost + "/v1/things?page=1")
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.ProtoMajor != 2 {
				b.Fatal(resp.Proto)
			}
		})
	})
	b.Run("tunnel", func(b *testing.B) {
		u := serve(b, echo)
		w := newWorld(b, map[string]string{"db.test": u.addr})
		c := w.dial("db.test", 5000)
		w.measure(b, func() {
			write(b, c, "\x01")
			readN(b, c, 1)
		})
	})
	b.Run("connection", func(b *testing.B) {
		u := serve(b, echo)
		w := newWorld(b, map[string]string{"db.test": u.addr})
		address := w.address("db.test", 5000)
		w.measure(b, func() {
			c, s := pair(b)
			w.dst.Store(s, address)
			w.conns <- s
			write(b, c, "\x01")
			readN(b, c, 1)
			_ = c.SetLinger(0)
			c.Close()
			w.dst.Delete(s)
		})
	})
	b.Run("connection-http1", func(b *testing.B) {
		w := newInspectedBy(b, ca, secured.addr)
		address := w.address(readHost, 443)
		w.measure(b, func() {
			c, s := pair(b)
			w.dst.Store(s, address)
			w.conns <- s
			t := tls.Client(c, &tls.Config{RootCAs: w.pool, ServerName: readHost})
			exchange(b, t, bufio.NewReader(t))
			_ = c.SetLinger(0)
			c.Close()
			w.dst.Delete(s)
		})
	})
}

// address is where programs find a name, by the engine's word.
func (w *world) address(name string, port uint16) netip.AddrPort {
	w.t.Helper()
	addrs, err := w.resolver().LookupNetIP(w.t.Context(), "ip4", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return netip.AddrPortFrom(addrs[0].Unmap(), port)
}
