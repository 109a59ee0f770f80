package monitor

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"cloister/sandbox/microvm/wire"
)

// pair is a monitor's box and the guest that speaks to it.
func pair(t *testing.T) (*box, *yamux.Session) {
	t.Helper()
	return pairOf(t, headWithin)
}

// pairOf is one whose streams begin within a time.
func pairOf(t *testing.T, head time.Duration) (*box, *yamux.Session) {
	t.Helper()
	own, other := net.Pipe()
	m, err := wire.Monitor(own)
	if err != nil {
		t.Fatal(err)
	}
	g, err := wire.Guest(other)
	if err != nil {
		t.Fatal(err)
	}
	b := &box{o: Order{Setup: Setup{Network: true}}, s: m, head: head, over: make(chan error, 8)}
	t.Cleanup(func() {
		_ = g.Close()
		_ = m.Close()
	})
	go b.accept(t.Context())
	return b, g
}

// TestOwnLoopback holds a guest off what listens on the loopback of the enclosure, by whatever
// spelling of an address. That each leads there is seen by a connection without a monitor.
func TestOwnLoopback(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came <- c
		}
	}()
	_, g := pair(t)
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "::ffff:0.0.0.0"} {
		at := net.JoinHostPort(host, port)
		c, err := net.Dial("tcp", at) // the control
		if err != nil {
			t.Fatalf("the control: %s: %v", at, err)
		}
		_ = c.Close()
		_ = (<-came).Close()
		s, err := wire.Open(g, wire.Head{TCP: at})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetReadDeadline(time.Now().Add(time.Minute)) // the read tells
		ended := make(chan error, 1)
		go func() {
			_, err := s.Read(make([]byte, 1))
			ended <- err
		}()
		select {
		case c := <-came:
			t.Errorf("%s was reached", at)
			_ = c.Close()
		case err := <-ended:
			if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
				t.Errorf("%s: neither reached nor refused", at)
			}
		}
		_ = s.Close()
	}
}

// TestManyStreams opens more streams than a monitor serves at once: those beyond are closed, the
// others stay, and one that ends makes room.
func TestManyStreams(t *testing.T) {
	_, g := pair(t)
	var open []*yamux.Stream
	ended := make(chan int, mostStreams+1)
	for n := range mostStreams + 1 {
		s, err := g.OpenStream()
		if err != nil {
			t.Fatalf("stream %s: %v", strconv.Itoa(n), err)
		}
		if _, err := s.Write([]byte("{")); err != nil { // half of a head
			t.Fatal(err)
		}
		open = append(open, s)
		go func() {
			_, _ = s.Read(make([]byte, 1))
			ended <- n
		}()
	}
	select {
	case <-ended: // one of them
	case <-time.After(time.Minute):
		t.Fatal("all streams are served")
	}
	select {
	case n := <-ended:
		t.Errorf("stream %d ended as well", n)
	default:
	}
	for _, s := range open {
		_ = s.Close()
	}
}
