// Package echo serves a gate for tests of drivers: what comes goes back, and is kept.
//
// It knows no policy, and what it made ends with its test.
package echo

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"cloister/sandbox"
)

// Into serves the gate, and writes what came to heard.
func Into(t *testing.T, heard io.Writer) func(context.Context, sandbox.Gate) error {
	return func(_ context.Context, g sandbox.Gate) error {
		defer g.Close()
		l, err := net.FileListener(g.TCP4)
		if err != nil {
			return err
		}
		served := make(chan struct{})
		t.Cleanup(func() { l.Close(); <-served })
		go func() {
			defer close(served)
			var each sync.WaitGroup
			defer each.Wait()
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				t.Cleanup(func() { c.Close() })
				each.Go(func() { _, _ = io.Copy(c, io.TeeReader(c, heard)) })
			}
		}()
		return nil
	}
}

// Heard is what came, for use by several goroutines.
type Heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write keeps what came.
func (h *Heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

// String is all of it so far.
func (h *Heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}
