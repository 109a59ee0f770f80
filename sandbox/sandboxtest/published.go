package sandboxtest

import (
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"cloister/sandbox"
)

// published: what listens on the inside's loopback can be reached through the box,
// by either protocol, and what does not listen is refused. A box that cannot be
// reached so is none that can publish ports: that is a driver's choice.
func published(t *testing.T, h *Harness) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	const server = `
import os, socket, sys
one = socket.create_server(("127.0.0.1", 7001))
six = socket.socket(socket.AF_INET6)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
six.bind(("::1", 7002))
six.listen()
open("ready", "w").close()
for s in (one, six):
    c, _ = s.accept()
    c.sendall(b"got " + c.recv(100))
    c.close()
`
	out := h.Run(t, Options{Arm: shut, During: func(b sandbox.Box) {
		d, ok := b.(sandbox.Dialer)
		if !ok {
			_ = b.Close()
			return
		}
		h.awaitFile(t, b, "ready")
		if c, err := d.Dial(t.Context(), 7003); err == nil {
			_ = c.Close()
			t.Error("a port on which nothing listens was reached")
		}
		for _, port := range []uint16{7001, 7002} {
			c, err := d.Dial(t.Context(), port)
			if err != nil {
				t.Errorf("port %d: %v", port, err)
				_ = b.Close()
				return
			}
			if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Error(err)
			}
			_, err = io.WriteString(c, "word")
			text, readErr := io.ReadAll(c)
			if err != nil || readErr != nil || string(text) != "got word" {
				t.Errorf("port %d: %q, %v, %v", port, text, err, readErr)
			}
			_ = c.Close()
		}
	}}, "python3", "-c", strings.TrimSpace(server))
	if out.Err != nil || strings.Contains(out.Stderr, "Error") {
		t.Errorf("%+v", out)
	}
}
