package budget

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// A body in memory counts from its first byte until it was read, or its request is over.
func TestWhole(t *testing.T) {
	const size = 100 << 10
	text := strings.Repeat("x", size)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		from io.Reader
		room int64
		most int
		err  error
	}{
		"fits":      {strings.NewReader(text), 1 << 20, size, nil},
		"in bytes":  {iotest.OneByteReader(strings.NewReader(text)), 1 << 20, size, nil},
		"empty":     {strings.NewReader(""), 1 << 20, 0, nil},
		"too long":  {strings.NewReader(text), 1 << 20, size - 1, ErrLong},
		"no memory": {strings.NewReader(text), size, size, ErrFull},
		"breaks":    {io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), 1 << 20, size, broken},
	} {
		b := New(c.room, 0, time.Millisecond)
		w, err := b.Share().Whole(t.Context(), c.from, c.most)
		if !errors.Is(err, c.err) || err != nil && b.Used() != 0 {
			t.Errorf("%s: %v, %d are held", name, err, b.Used())
		}
		if err != nil {
			continue
		}
		n := len(w.Bytes())
		if held := b.Used(); held < int64(n) || held > 2*int64(n)+first {
			t.Errorf("%s: a body of %d holds %d", name, n, held)
		}
		if got, err := io.ReadAll(w); err != nil || len(got) != n || b.Used() != 0 {
			t.Errorf("%s: %d bytes, %v, %d are held after reading", name, len(got), err, b.Used())
		}
		w.Close() // once more
	}
}

func TestWholeEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(1<<20, 0, time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		w, err := b.Share().Whole(ctx, strings.NewReader("a body"), 10)
		if err != nil || b.Used() == 0 {
			t.Fatalf("%v, %d are held", err, b.Used())
		}
		if err := w.Replace(make([]byte, 1<<16)); err != nil || b.Used() < 1<<16 {
			t.Errorf("another text: %v, %d are held", err, b.Used())
		}
		if err := w.Replace(make([]byte, 1<<20)); !errors.Is(err, ErrFull) {
			t.Errorf("a text without memory: %v", err)
		}
		cancel()
		synctest.Wait()
		if b.Used() != 0 {
			t.Errorf("%d are held when the request is over", b.Used())
		}
	})
}
