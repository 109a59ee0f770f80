// Package unpack undoes the content codings of bodies.
//
// The promise: what is unpacked, and what codings make of each other, is bounded, and
// so is the memory of all bodies that are being unpacked at once: one that wants more
// waits for its turn, and after a while is informed that there is none. A session can take
// half of what the others leave, and what is spare goes to those that have next to
// nothing, a body for each: so no single session leaves another without.
//
// It does not promise memory to however many sessions: where several hold all they can,
// and two bodies of the longest window or seven of 4 MiB hold what is spare, the next
// session waits like any other. What a body holds it holds until its end, a stream too.
//
// It does not know what the bodies are for.
//
// Most readers want [Memory.Share] and [Share.Reader].
package unpack

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

const (
	// Most is what a body is unpacked to, and what one coding gives the next.
	Most = 256 << 20
	// MostCodings bounds the codings of one body: each multiplies what few bytes cost.
	MostCodings = 2
	// mostWindow is the most that a zstd body may refer back to (RFC 9659).
	mostWindow = 8 << 20
	// leastWindow is what another frame behind the first may refer back to.
	leastWindow = 256 << 10
	// besides is what a decoder needs besides its window.
	besides = 64 << 10
)

// ErrCoding says that a content coding is not known here.
var ErrCoding = errors.New("a content coding that is not known here")

// What is packed too well to be looked at.
var (
	ErrCodings = fmt.Errorf("more than %d content codings", MostCodings)
	ErrTooMuch = fmt.Errorf("a compressed body of more than %d MiB", Most>>20)
	ErrWindow  = fmt.Errorf("a compressed body that refers back further than %d MiB", mostWindow>>20)
)

// Reader undoes content codings, the last first. The memory is held until the end of
// the body, and no longer than ctx.
func (s *Share) Reader(ctx context.Context, codings []string, from io.Reader) (io.Reader, error) {
	if len(codings) > MostCodings {
		return nil, ErrCodings
	}
	for i, coding := range slices.Backward(codings) {
		if i < len(codings)-1 {
			from = Bound(ctx, from, Most)
		}
		open := map[string]func(*bufio.Reader) (int, opener){
			"gzip": gzipped, "x-gzip": gzipped, "deflate": deflated, "br": brotlied, "zstd": zstandard,
		}[coding]
		if open == nil {
			return nil, fmt.Errorf("%w: %s", ErrCoding, coding)
		}
		from = &lazy{ctx: ctx, share: s, from: bufio.NewReader(from), look: open}
	}
	return from, nil
}

// An opener makes the decoder of a body whose beginning was looked at.
type opener func(*bufio.Reader) (io.Reader, error)

func gzipped(*bufio.Reader) (int, opener) {
	return besides, func(r *bufio.Reader) (io.Reader, error) { return gzip.NewReader(r) }
}

// deflated is what is called deflate: with the header of zlib, as it should be, or
// without, as some send it.
func deflated(*bufio.Reader) (int, opener) {
	return besides, func(r *bufio.Reader) (io.Reader, error) {
		head, err := r.Peek(2)
		if err != nil {
			return nil, err // returned as it is
		}
		if head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
			return zlib.NewReader(r)
		}
		return flate.NewReader(r), nil
	}
}

// brotlied reads how far the body refers back from its first bits (RFC 7932 9.1).
func brotlied(r *bufio.Reader) (int, opener) {
	bits := 16
	if head, _ := r.Peek(1); len(head) > 0 && head[0]&1 == 1 {
		switch long, short := head[0]>>1&7, head[0]>>4&7; {
		case long > 0:
			bits = 17 + int(long)
		case short > 1:
			bits = 8 + int(short)
		default:
			bits = 17 // one of them is none at all, which the decoder says
		}
	}
	return 1<<bits + besides, func(r *bufio.Reader) (io.Reader, error) { return brotli.NewReader(r), nil }
}

// zstandard reads it from the head of the first frame; those behind it may refer back
// as far.
func zstandard(r *bufio.Reader) (int, opener) {
	window := uint64(mostWindow) // of what has no head that can be read, or is to be skipped
	var h zstd.Header
	for n := 6; n <= zstd.HeaderMaxSize; n++ { // no byte more than the head has: the rest may come later
		head, err := r.Peek(n)
		herr := h.Decode(head)
		if herr == nil && !h.Skippable {
			window = h.WindowSize
			if h.SingleSegment {
				window = h.FrameContentSize
			}
		}
		if err != nil || !errors.Is(herr, io.ErrUnexpectedEOF) {
			break
		}
	}
	window = min(max(window, leastWindow), mostWindow)
	return int(window) + besides, func(r *bufio.Reader) (io.Reader, error) { // at most mostWindow
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(window))
		return worded{d}, err
	}
}

// worded has ErrWindow for the two ways in which a zstd body tells it.
type worded struct{ from io.Reader }

func (w worded) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = ErrWindow
	}
	return n, err
}

// A lazy opens its decoder at the first read, which reads, and waits for its memory.
type lazy struct {
	ctx   context.Context // of one body
	share *Share
	from  *bufio.Reader
	look  func(*bufio.Reader) (int, opener)
	body  io.Reader
	err   error
	done  func()
}

func (l *lazy) Read(p []byte) (int, error) {
	if l.body == nil && l.err == nil {
		l.err = l.open()
	}
	if l.err == nil {
		l.err = l.ctx.Err() // then its memory belongs to another request
	}
	if l.err != nil {
		l.body = nil
		return 0, l.err
	}
	n, err := l.body.Read(p)
	if err != nil {
		l.err, l.body = err, nil
		l.done()
	}
	return n, err
}

func (l *lazy) open() error {
	need, open := l.look(l.from)
	done, err := l.share.take(l.ctx, int64(need))
	if err != nil {
		return err
	}
	l.done = done
	if l.body, err = open(l.from); err != nil {
		l.body = nil
		done()
	}
	return err
}

// Bound is a body that ends with ErrTooMuch, or with its context.
func Bound(ctx context.Context, from io.Reader, most int64) io.Reader {
	return &bounded{ctx, from, most}
}

type bounded struct {
	ctx  context.Context // of one body
	from io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.from.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooMuch
	}
	return n, err
}
