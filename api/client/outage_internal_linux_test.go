package client

import (
	"context"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// What comes while no guardian is there is refused when it comes: not at the end of
// the wait for the next look at one.
func TestRefusedWhenItComes(t *testing.T) {
	ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	questions, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	file := func(f *os.File, err error) *os.File {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	l := Listeners{TCP4: file(ln.File()), DNS: file(questions.File())}
	at, asked := ln.Addr().String(), questions.LocalAddr().String()
	_, _ = ln.Close(), questions.Close()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.refuse(ctx, time.Hour)
	}()
	for range 3 {
		c, err := net.Dial("tcp", at)
		if err == nil {
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			_, err = c.Read(make([]byte, 1))
			_ = c.Close()
		}
		if err == nil || os.IsTimeout(err) {
			t.Fatalf("a connection is not refused: %v", err)
		}
		q, err := net.Dial("udp", asked)
		if err != nil {
			t.Fatal(err)
		}
		_ = q.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := q.Write([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00")); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 64)
		n, err := q.Read(answer)
		_ = q.Close()
		if err != nil || n != 12 || answer[0] != 0x12 || answer[3]&0xf != 2 {
			t.Fatalf("a question gets %x, %v", answer[:n], err)
		}
	}
	select {
	case <-over:
		t.Fatal("it ended by itself")
	default:
	}
	cancel()
	select {
	case <-over:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end with its context")
	}
}

// What cannot be taken, as with no descriptor left, is not tried without rest: it waits
// at the gate, and poll says so at once.
func TestRefuseRests(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := c.WriteTo([]byte("x"), c.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	l := Listeners{TCP4: f} // accept on it fails, and it is readable
	if n, err := unix.Poll(l.sockets(), 20_000); n != 1 || err != nil {
		t.Fatalf("poll: %d, %v", n, err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l.refuse(t.Context(), 1)
		if d := time.Since(began); d != glance {
			t.Errorf("after nothing was taken it looks again in %v", d)
		}
	})
}
