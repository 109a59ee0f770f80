package egress_test

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"cloister/egress"
	"cloister/internal/budget"
)

// Peers that begin bodies by HTTP/2 for a server that reads none, and end, give back what
// was held for them, also where it was waited for memory for what they had sent: the next
// connection is served.
func TestPeersGiveBack(t *testing.T) {
	memory := budget.New(8<<20, 0, 2*time.Second)
	ca := newTestCA(t)
	deaf := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			<-r.Context().Done()
		}
	})
	w := newInspectedBy(t, ca, tlsServer(t, ca.leaf(nil, readHost), deaf, "h2", "http/1.1"), func(c *egress.Config) { c.Memory = memory.Share() })
	var peers sync.WaitGroup
	conns := make([]net.Conn, 40)
	for i := range conns {
		conns[i] = w.open("h2")
	}
	for _, c := range conns {
		peers.Go(func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(2 * time.Second))
			begin100(c)
		})
	}
	peers.Wait()
	for begin := time.Now(); memory.Used() > 1<<20; time.Sleep(10 * time.Millisecond) { //nolint:forbidigo // nothing else tells
		if time.Since(begin) > patience {
			t.Fatalf("%d bytes are held for peers that have ended", memory.Used())
		}
	}
	resp, err := w.client2().Get("https://" + readHost + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// begin100 begins a hundred bodies, and gives them what the connection's window has.
func begin100(c net.Conn) {
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	_ = f.WriteSettings()
	for n := range uint32(100) {
		say(f, 2*n+1, false, ":method", "POST", ":scheme", "https", ":authority", readHost, ":path", "/")
	}
	for n, credit := uint32(0), 65535; ; {
		if credit >= 16<<10 {
			if f.WriteData(2*(n%100)+1, false, make([]byte, 16<<10)) != nil {
				return
			}
			n, credit = n+1, credit-(16<<10)
			continue
		}
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if more, ok := frame.(*http2.WindowUpdateFrame); ok && more.StreamID == 0 {
			credit += int(more.Increment)
		}
	}
}
