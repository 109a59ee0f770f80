package unpack

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"cloister/internal/budget"
)

// Between two codings stand a bound and the request's end.
func TestBetweenCodings(t *testing.T) {
	if got, err := io.ReadAll(Bound(t.Context(), strings.NewReader("four"), 4)); err != nil || string(got) != "four" {
		t.Errorf("control: %q, %v", got, err)
	}
	if _, err := io.ReadAll(Bound(t.Context(), strings.NewReader("four+"), 4)); !errors.Is(err, ErrTooMuch) {
		t.Errorf("one more: %v", err)
	}
	share := Of(budget.New(128<<20, 0, 10*time.Second).Share())
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		open, err := share.Reader(ctx, []string{coding, "deflate"}, strings.NewReader("\x78\x9c"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(open); !errors.Is(err, context.Canceled) {
			t.Errorf("%s of a request that is over: %v", coding, err)
		}
	}
	if _, err := share.Reader(t.Context(), []string{"br", "br", "br"}, nil); !errors.Is(err, ErrCodings) {
		t.Errorf("three codings: %v", err)
	}
	if _, err := share.Reader(t.Context(), []string{"lzma"}, nil); !errors.Is(err, ErrCoding) {
		t.Errorf("an unknown coding: %v", err)
	}
}

// What a body takes of the memory is what its decoder will, and it is given back at
// its end, or at that of its request.
func TestTakesItsWindow(t *testing.T) {
	text := bytes.Repeat([]byte("a text that says what it says, and that again; "), 1000)
	brotlis := func(bits int) []byte {
		var b bytes.Buffer
		w := brotli.NewWriterOptions(&b, brotli.WriterOptions{Quality: 5, LGWin: bits})
		_, _ = w.Write(text)
		_ = w.Close()
		return b.Bytes()
	}
	zstds := func(window int) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(text)
		_ = w.Flush() // its length is not in the head then
		_ = w.Close()
		return b.Bytes()
	}
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, _ = w.Write(text)
	_ = w.Close()
	for _, c := range []struct {
		name, coding string
		body         []byte
		want         int64
	}{
		{"gzip", "gzip", gz.Bytes(), besides},
		{"br of 64 KiB", "br", brotlis(16), 64<<10 + besides},
		{"br of 256 KiB", "br", brotlis(18), 256<<10 + besides},
		{"br of 1 KiB", "br", brotlis(10), 1<<10 + besides},
		{"br of 16 MiB", "br", brotlis(24), 16<<20 + besides},
		{"zstd of 8 MiB", "zstd", zstds(8 << 20), 8<<20 + besides},
		{"zstd of 1 KiB", "zstd", zstds(1 << 10), leastWindow + besides},
		{"zstd to be skipped", "zstd", append([]byte("\x50\x2a\x4d\x18\x01\x00\x00\x00x"), zstds(1<<20)...), mostWindow + besides},
	} {
		m := budget.New(128<<20, 0, 10*time.Second)
		s, used := Of(m.Share()), m.Used
		open, err := s.Reader(t.Context(), []string{c.coding}, bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open.Read(make([]byte, 1)); err != nil || used() != c.want {
			t.Errorf("%s: %d bytes are held, want %d (%v)", c.name, used(), c.want, err)
		}
		rest, err := io.ReadAll(open)
		if err != nil || string(rest) != string(text[1:]) || used() != 0 {
			t.Errorf("%s: %d bytes, %v; %d are held at the end", c.name, len(rest), err, used())
		}
		ctx, cancel := context.WithCancel(t.Context())
		open, err = s.Reader(ctx, []string{c.coding}, bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = open.Read(make([]byte, 1))
		cancel()
		for end := time.Now().Add(20 * time.Second); used() != 0 && time.Now().Before(end); time.Sleep(time.Millisecond) { //nolint:forbidigo // nothing else tells
		}
		if used() != 0 {
			t.Errorf("%s: %d are held after the request", c.name, used())
		}
	}
}

// Who wants more than there is waits, and is told.
func TestWaits(t *testing.T) {
	m := budget.New(16, 0, 20*time.Second)
	one := Of(m.Share())
	take := func(n int64, want error) func() {
		t.Helper()
		done, err := one.take(t.Context(), n)
		if !errors.Is(err, want) {
			t.Fatalf("take %d: %v, want %v", n, err, want)
		}
		return done
	}
	first := take(8, nil)
	go first()
	second := take(6, nil) // waits for the first
	first()                // twice is once
	second()
	if m.Used() != 0 {
		t.Errorf("%d are held", m.Used())
	}
	ctx, cancel := context.WithCancel(t.Context())
	take(8, nil)
	cancel()
	if _, err := one.take(ctx, 8); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that is over: %v", err)
	}
	short := Of(budget.New(16, 0, time.Millisecond).Share())
	if _, err := short.take(t.Context(), 17); !errors.Is(err, ErrCrowded) {
		t.Errorf("more than there is: %v", err)
	}
}
