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
)

// Between two codings stand a bound and the request's end.
func TestBetweenCodings(t *testing.T) {
	if got, err := io.ReadAll(Bound(t.Context(), strings.NewReader("four"), 4)); err != nil || string(got) != "four" {
		t.Errorf("control: %q, %v", got, err)
	}
	if _, err := io.ReadAll(Bound(t.Context(), strings.NewReader("four+"), 4)); !errors.Is(err, ErrTooMuch) {
		t.Errorf("one more: %v", err)
	}
	share := NewMemory(64 << 20).Share()
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
		m := NewMemory(64 << 20)
		s := m.Share()
		used := func() int64 {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.used
		}
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

// A session has half of what the others leave; who wants more waits, and is told.
func TestShares(t *testing.T) {
	m := NewMemory(16)
	m.within = 10 * time.Millisecond
	one, two := m.Share(), m.Share()
	take := func(s *Share, n int64, want error) func() {
		t.Helper()
		done, err := s.take(t.Context(), n)
		if !errors.Is(err, want) {
			t.Fatalf("take %d: %v, want %v", n, err, want)
		}
		return done
	}
	first := take(one, 8, nil)
	take(one, 1, ErrCrowded)
	second := take(two, 4, nil)
	take(two, 1, ErrCrowded)
	m.within = 20 * time.Second
	go first()
	third := take(one, 6, nil) // waits for the first
	first()                    // twice is once
	second()
	third()
	if m.used != 0 || one.used != 0 || two.used != 0 {
		t.Errorf("%d, %d and %d are held", m.used, one.used, two.used)
	}
	ctx, cancel := context.WithCancel(t.Context())
	take(one, 8, nil)
	cancel()
	if _, err := one.take(ctx, 8); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that is over: %v", err)
	}
}

// Three sessions that take what they can leave a body to others, which hold next to
// nothing; and those leave the three no less than they had.
func TestLeavesABody(t *testing.T) {
	for _, c := range []struct {
		bits   int
		greedy []int // what each of the first sessions gets
		others int
	}{
		{24, []int{4, 2, 1}, 2},
		{22, []int{16, 8, 4, 2, 1}, 7},
	} {
		body := int64(1<<c.bits + besides)
		m := NewMemory(128 << 20)
		for n, want := range c.greedy {
			s, got := m.Share(), 0
			for s.try(body) == nil {
				got++
			}
			if got != want {
				t.Errorf("%d bits: session %d holds %d, want %d", c.bits, n+1, got, want)
			}
		}
		for n := range c.others {
			s := m.Share()
			if s.try(besides) != nil || s.try(body) != nil {
				t.Errorf("%d bits: the %d. session besides them has nothing", c.bits, n+1)
			}
			if s.try(body) == nil {
				t.Errorf("%d bits: the %d. session besides them has two", c.bits, n+1)
			}
		}
	}
}
