package sandboxtest

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"cloister/internal/origin"
	"cloister/sandbox"
)

// dial is bash's way to the network, which needs no program.
const dial = `exec 3<>/dev/tcp/$0/$1 && head -c 4 <&3`

// atOnce also reports whether the answer took more than a second.
const atOnce = `s=${EPOCHREALTIME//[!0-9]/}; (` + dial +
	`); c=$?; e=${EPOCHREALTIME//[!0-9]/}; [ $((e - s)) -lt 1000000 ] || echo late; exit $c`

func noWayOut(t *testing.T, h *Harness) {
	if h.differ(GateAlways) { // what follows is tried with one that nothing serves
		h.refused(t, Options{Change: func(s *sandbox.Spec) { s.Network = false }}, "no network")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	hits := make(chan struct{}, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits <- struct{}{}
			io.WriteString(c, "ping")
			c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	// The control: the same command reaches it from the host.
	ctl := exec.CommandContext(t.Context(), "bash", "-c", dial, "127.0.0.1", port) // the control runs outside
	if b, err := ctl.CombinedOutput(); err != nil || string(b) != "ping" {
		t.Fatalf("control: %q, %v", b, err)
	}
	<-hits
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "198.18.0.1", "192.0.2.1", "::1"} {
		out := h.Run(t, Options{}, "bash", "-c", atOnce, host, port)
		if out.Err != nil || out.Status.ExitCode() == 0 || strings.Contains(out.Stdout, "late") {
			t.Errorf("%s answered, or was refused late: %+v", host, out)
		}
	}
	select {
	case <-hits:
		t.Error("the host's loopback was reached")
	default:
	}
	if h.differ(GateAlways) {
		return
	}
	// Without a gate there is loopback all the same, and nothing else.
	out := h.Run(t, Options{}, "python3", "-c", `
import os, socket
for family, host in [(socket.AF_INET, "127.0.0.1")] + [(socket.AF_INET6, "::1")] * os.path.exists("/proc/sys/net/ipv6"):
    l = socket.create_server((host, 0), family=family); c = socket.create_connection(l.getsockname()[:2])
    a, _ = l.accept(); a.send(b"mine"); assert c.recv(4) == b"mine"
for to in ["192.0.2.1", "169.254.169.254", "198.18.0.1"]:
    try: socket.create_connection((to, 443), 3); print("reached", to)
    except OSError as e: assert e.errno in (101, 113), e
print("done")
`)
	if out.Err != nil || !strings.HasSuffix(out.Stdout, "done\n") || strings.Contains(out.Stdout, "reached") {
		t.Errorf("loopback without a gate: %+v", out)
	}
}

func gate(t *testing.T, h *Harness) {
	arm := func(_ context.Context, g sandbox.Gate) error { return answering(t, g) }
	for _, to := range []string{"192.0.2.1", "10.1.2.3", "169.254.169.254", "198.18.0.9", "2001:db8::1"} {
		if out := h.Run(t, Options{Arm: arm}, "bash", "-c", dial, to, "443"); out.Err != nil || out.Stdout != "gate" {
			t.Errorf("%s: %+v", to, out)
		}
	}
	// UDP elsewhere is refused at once, not swallowed; DNS reaches the gate.
	out := h.Run(t, Options{Arm: arm}, "python3", "-c", `
import socket, time
t = time.monotonic()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.connect(("192.0.2.1", 443))
try: s.send(b"q"); s.recv(1); print("answered")
except TimeoutError: print("swallowed")
except OSError as e: print("refused", time.monotonic() - t < 1)
d = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); d.settimeout(3)
d.sendto(b"hello", ("192.0.2.53", 53)); print(d.recv(10))
`)
	if out.Err != nil || !strings.HasPrefix(out.Stdout, "refused True\n") || !strings.Contains(out.Stdout, "b'hello'") {
		t.Errorf("UDP: %+v", out)
	}
	// What goes to the gate is not sent by timers, whatever the host's TCP does.
	out = h.Run(t, Options{Arm: arm}, "python3", "-c", `
import socket
for to in "192.0.2.1", "2001:db8::1":
    c = socket.create_connection((to, 443), 3)
    print(c.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode())
`)
	if out.Err != nil || out.Stdout != "reno\nreno\n" {
		t.Errorf("congestion control: %+v", out)
	}
	// A service inside is the cloister's own.
	out = h.Run(t, Options{Arm: arm}, "python3", "-c", `
import socket
l = socket.create_server(("127.0.0.1", 8080)); c = socket.create_connection(("127.0.0.1", 8080))
a, _ = l.accept(); a.send(b"mine"); print(c.recv(4))
`)
	if out.Err != nil || out.Stdout != "b'mine'\n" {
		t.Errorf("loopback inside: %+v", out)
	}
}

// answering serves a gate: each connection with a word, each question with itself.
func answering(t *testing.T, g sandbox.Gate) error {
	serve := func(f *os.File, each func(net.Conn)) error {
		if f == nil {
			return nil
		}
		l, err := net.FileListener(f)
		if err != nil {
			return err
		}
		t.Cleanup(func() { l.Close() })
		if f == g.Streams {
			l = origin.Listener{Listener: l}
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					each(c)
				}()
			}
		}()
		return nil
	}
	word := func(c net.Conn) {
		_, _ = origin.Of(c) // which reads what a stream begins with
		_, _ = io.WriteString(c, "gate")
	}
	echo := func(c net.Conn) {
		size := make([]byte, 2)
		if _, err := io.ReadFull(c, size); err == nil { // of a question: RFC 1035 4.2.2
			_, _ = c.Write(size)
			_, _ = io.CopyN(c, c, int64(binary.BigEndian.Uint16(size)))
		}
	}
	err := errors.Join(serve(g.TCP4, word), serve(g.TCP6, word), serve(g.Streams, word), serve(g.DNSStreams, echo))
	if err != nil || g.DNS4 == nil {
		g.Close()
		return err
	}
	pc, err := net.FilePacketConn(g.DNS4)
	if err != nil {
		return err
	}
	t.Cleanup(func() { pc.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			pc.WriteTo(buf[:n], from)
		}
	}()
	g.Close()
	return nil
}
