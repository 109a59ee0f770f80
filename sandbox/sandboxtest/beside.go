package sandboxtest

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/sandbox"
)

// beside: TCP to a peer and to a local port comes out at its own socket, to an address that
// is no peer's at the gate; the box is reached at its own address, where its loopback's
// listener is not. The box can listen on the ports of others. A driver that has none of it
// starts no such Spec.
func beside(t *testing.T, h *Harness) {
	peers := func(s *sandbox.Spec) { s.Peers = &sandbox.Peers{Self: 1, Others: []uint8{2}, Local: []uint16{7005}} }
	if _, ok := h.Driver.(sandbox.PeerDriver); !ok {
		if out := h.Run(t, Options{Change: peers}, "true"); out.Err == nil {
			t.Error("a driver that builds no way to those beside a cloister started one that has such")
		}
		return
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	const program = `
import socket, time
everywhere = socket.create_server(("0.0.0.0", 8080))
alone = socket.create_server(("127.0.0.1", 7004))
def said(to):
    s = socket.create_connection(to, timeout=30)
    try:
        return s.recv(100).decode()
    except ConnectionResetError:
        return "reset"
print("peer", said(("203.0.113.2", 8080)))
print("local", said(("127.0.0.1", 7005)))
print("other", said(("203.0.113.3", 8080)), flush=True)
open("ready", "w").close()
everywhere.accept()[0].sendall(b"here")
`
	ready := filepath.Join(h.Project, "ready")
	defer os.Remove(ready)
	serve := func(f *os.File, name string) {
		l, err := net.FileListener(f)
		f.Close()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, name)
				_ = c.Close()
			}
		}()
	}
	out := h.Run(t, Options{
		Change: peers,
		Peers: func(sockets []*os.File) {
			if len(sockets) != 2 {
				t.Errorf("%d sockets", len(sockets))
				return
			}
			serve(sockets[0], "by address")
			serve(sockets[1], "by port")
		},
		Arm: func(_ context.Context, g sandbox.Gate) error {
			serve(g.TCP4, "gate")
			g.TCP4 = nil
			g.Close()
			return nil
		},
		During: func(b sandbox.Box) {
			await(t, func() bool { _, err := os.Stat(ready); return err == nil })
			d := b.(sandbox.PeerDialer)
			if c, err := d.DialPeer(t.Context(), 7004); err == nil {
				_ = c.Close()
				t.Error("a listener of the loopback was reached from beside")
			}
			c, err := d.DialPeer(t.Context(), 8080)
			if err != nil {
				t.Error(err)
				_ = b.Close()
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // the read tells
			if text, err := io.ReadAll(c); err != nil || string(text) != "here" {
				t.Errorf("%q, %v", text, err)
			}
		},
	}, "python3", "-c", strings.TrimSpace(program))
	if want := "peer by address\nlocal by port\nother gate\n"; out.Err != nil || out.Stdout != want {
		t.Errorf("%+v, want %q", out, want)
	}
}
