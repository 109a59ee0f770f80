package wire_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/yamux"

	"cloister/sandbox/microvm/wire"
)

// sides are both ends of a port.
func sides(t *testing.T) (guest, monitor *yamux.Session) {
	t.Helper()
	a, b := net.Pipe()
	guest, err := wire.Guest(a)
	if err != nil {
		t.Fatal(err)
	}
	if monitor, err = wire.Monitor(b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		guest.Close()
		monitor.Close()
	})
	return guest, monitor
}

// connected is a connection of TCP, both ends.
func connected(t *testing.T) (own, other *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

// carried is a program's connection, and the far end of what carries it.
func carried(t *testing.T) (program, far *net.TCPConn, done chan struct{}) {
	t.Helper()
	guest, monitor := sides(t)
	program, near := connected(t)
	out, far := connected(t)
	done = make(chan struct{}, 2)
	go func() {
		s, err := wire.Open(guest, wire.Head{TCP: "203.0.113.9:443"})
		if err != nil {
			t.Error(err)
			return
		}
		wire.Carry(s, near)
		done <- struct{}{}
	}()
	s, err := monitor.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	var h wire.Head
	if err := wire.Hear(s, &h); err != nil || h.TCP != "203.0.113.9:443" {
		t.Fatalf("%+v, %v", h, err)
	}
	go func() {
		wire.Carry(s, out)
		done <- struct{}{}
	}()
	return program, far, done
}

// TestCarry ends each direction by itself.
func TestCarry(t *testing.T) {
	program, far, done := carried(t)
	big := strings.Repeat("0123456789abcdef", 128<<10)
	go func() {
		_, _ = io.WriteString(program, big)
		_ = program.CloseWrite()
	}()
	if text, err := io.ReadAll(far); err != nil || string(text) != big {
		t.Errorf("%d bytes of %d, %v", len(text), len(big), err)
	}
	if _, err := io.WriteString(far, "back"); err != nil {
		t.Error(err)
	}
	far.Close()
	if text, err := io.ReadAll(program); err != nil || string(text) != "back" {
		t.Errorf("%q, %v", text, err)
	}
	program.Close()
	<-done
	<-done
}

// TestCarryAborts has a reset at one end be a reset at the other.
func TestCarryAborts(t *testing.T) {
	program, far, done := carried(t)
	if err := far.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	far.Close()
	if _, err := io.ReadAll(program); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the program sees %v", err)
	}
	program.Close()
	<-done
	<-done
}

// TestBounds refuses what is longer than agreed.
func TestBounds(t *testing.T) {
	var v wire.Word
	if err := wire.Hear(io.LimitReader(zeroes{}, 2*wire.MaxLine), &v); err == nil {
		t.Error("a line without an end is taken")
	}
	if err := wire.Say(io.Discard, wire.Word{Failed: strings.Repeat("x", wire.MaxLine)}); err == nil {
		t.Error("a line that is too long is said")
	}
	var out bytes.Buffer
	if err := wire.WriteFrame(&out, make([]byte, wire.MaxFrame+1)); err == nil {
		t.Error("a frame that is too long is written")
	}
	if _, err := wire.ReadFrame(strings.NewReader("\xff\xff"), make([]byte, wire.MaxFrame)); err == nil {
		t.Error("a frame that is too long is read")
	}
	if err := wire.Hear(strings.NewReader("{\"end\":"), &v); err == nil {
		t.Error("half a line is taken")
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
