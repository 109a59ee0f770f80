package peek

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"time"

	"cloister/internal/budget"
)

// What is held of a connection to be looked at is taken of its session's memory, and
// given back with it.
func TestHeldBytesCount(t *testing.T) {
	b := budget.New(128<<10, 0, time.Millisecond)
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		_, _ = far.Write(bytes.Repeat([]byte{'x'}, 1<<20))
		_ = far.Close()
	}()
	s := New(near, b.Share().Lease())
	var err error
	for err == nil {
		if err = s.Fill(1 << 20); err == nil && int64(cap(s.buf)) > b.Used()+2*First {
			t.Fatalf("%d bytes are held, and %d counted", cap(s.buf), b.Used())
		}
	}
	if !errors.Is(err, budget.ErrFull) || len(s.buf) < 16<<10 {
		t.Errorf("with %d bytes: %v", len(s.buf), err)
	}
	_ = s.Take(len(s.buf))
	if s.Drop(); b.Used() != 0 {
		t.Errorf("%d are held for nothing", b.Used())
	}
}
