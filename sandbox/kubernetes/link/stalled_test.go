package link_test

import (
	"bytes"
	"net"
	"testing"
	"time"
)

// TestStalledInit: a write to a pod that reads nothing ends when its stream is closed.
func TestStalledInit(t *testing.T) {
	e := connect(t)
	inside, door := net.Pipe() // nothing reads what comes inside
	joined := make(chan error, 1)
	go func() { joined <- e.gate.Init(t.Context(), door) }()
	defer func() {
		inside.Close()
		<-joined
	}()
	c, err := e.shim.Init(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() {
		for {
			if _, err := c.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
				wrote <- err
				return
			}
		}
	}()
	select {
	case err := <-wrote:
		t.Fatalf("the control: it is not stalled: %v", err)
	case <-time.After(200 * time.Millisecond): // what it waits for has no event
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-wrote:
	case <-time.After(20 * time.Second):
		t.Fatal("it still writes")
	}
}
