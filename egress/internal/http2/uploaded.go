package http2

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"

	"cloister/egress/internal/wire"
)

// A meter counts a body and holds it to its bounds.
type meter struct {
	io.ReadCloser
	most  int64
	over  error // of a body that holds more than most
	spend func(int64) error
	n     atomic.Int64
	early
	trailer http.Header // there once from has ended
	closed  atomic.Bool // on this side
	lost    atomic.Bool // the program did not send all of it
}

// early keeps why a body ended early: the transport has its own words.
type early struct{ why atomic.Pointer[error] }

func (e *early) end(err error) error {
	e.why.Store(&err)
	return err
}

func (e *early) failed() error {
	if why := e.why.Load(); why != nil {
		return *why
	}
	return nil
}

// Close notes that it is this side that reads no more.
func (b *meter) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

func (b *meter) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !b.closed.Load() {
		b.lost.Store(true)
	}
	if total := b.n.Add(int64(n)); b.most > 0 && total > b.most {
		return 0, b.end(b.over)
	}
	more := int64(n)
	if errors.Is(err, io.EOF) {
		more += wire.TidyTrailers(b.trailer)
	}
	if more > 0 {
		if err := b.spend(more); err != nil {
			return 0, b.end(err)
		}
	}
	return n, err
}

// listed are the fields of h, sorted by name.
func listed(h http.Header) wire.Header {
	var out wire.Header
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			out = append(out, wire.Field{Name: name, Value: value})
		}
	}
	return out
}

func mapped(fields wire.Header) http.Header {
	h := http.Header{}
	for name, value := range fields.All {
		h.Add(name, value)
	}
	return h
}

// An editedBody remembers why it ended: the transport tells its own words.
type editedBody struct {
	io.Reader
	io.Closer
	early
}

func (b *editedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, b.end(err)
	}
	return n, err
}
