package body

import (
	"errors"
	"io"
	"sync/atomic"

	"cloister/egress/internal/buffer"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/wire"
)

// An In is one message's body as a reader, without its framing.
type In struct {
	in     *Reader
	kind   wire.Framing
	left   int64 // of a counted one
	chunks Chunks
	Most   int64        // that it may hold; 0 is no bound
	Over   error        // of one that holds more
	First  func() error // before the first read; nil for none
	N      atomic.Int64 // bytes that were read
	Ended  bool         // it was read to its end
}

// New is the body of that framing which comes next from src. before, where not nil, is
// called before each read that may wait.
func New(src *peek.Source, b *buffer.Pool, kind wire.Framing, length int64, before func()) *In {
	in := &Reader{Src: src, Before: before}
	return &In{in: in, kind: kind, left: length, chunks: Chunks{In: in, Buffers: b}, Ended: kind == wire.NoBody}
}

// Length is how long it is, or -1 where no one knows.
func (b *In) Length() int64 {
	switch b.kind {
	case wire.NoBody:
		return 0
	case wire.Length:
		return b.left
	case wire.Chunked, wire.UntilClose:
	}
	return -1
}

// Read gives the body without its framing.
func (b *In) Read(p []byte) (int, error) {
	if b.Ended {
		return 0, io.EOF
	}
	if b.First != nil {
		first := b.First
		if b.First = nil; first() != nil {
			return 0, io.ErrUnexpectedEOF
		}
	}
	n, err := b.read(p)
	if total := b.N.Add(int64(n)); b.Most > 0 && total > b.Most {
		return 0, b.Over
	}
	return n, err
}

func (b *In) read(p []byte) (n int, err error) {
	switch b.kind {
	case wire.Length:
		if b.left == 0 {
			b.Ended = true
			return 0, io.EOF
		}
		n, err = b.in.Read(p[:min(int64(len(p)), b.left)])
		b.left -= int64(n)
	case wire.Chunked:
		if b.Ended, err = b.chunks.next(); err != nil || b.Ended {
			break
		}
		n, err = b.in.Read(p[:min(int64(len(p)), b.chunks.left)])
		b.chunks.left -= int64(n)
	case wire.UntilClose, wire.NoBody:
		if n, err = b.in.Read(p); errors.Is(err, io.EOF) {
			b.Ended = true
		}
		return n, err
	}
	switch {
	case b.Ended:
		return n, io.EOF
	case n > 0:
		return n, nil
	case errors.Is(err, io.EOF):
		return 0, io.ErrUnexpectedEOF // half a body must not look whole
	}
	return n, err
}

// Touched reports whether any of it was read, or of its framing.
func (b *In) Touched() bool { return b.N.Load() > 0 || b.Ended || b.chunks.open }

// Whole reports whether all of it was read, without another read.
func (b *In) Whole() bool { return b.Ended || b.kind == wire.Length && b.left == 0 }

// Trailers are the fields behind a chunked body that was read to its end.
func (b *In) Trailers() wire.Header { return b.chunks.Trailers }

// Before sets what is called before each read that may wait.
func (b *In) Before(f func()) { b.in.Before = f }
