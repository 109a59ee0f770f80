// Package ahead reads the beginning of a body before the rest of it is wanted.
//
// Promise: what was read comes first when the body is read, byte for byte, and counts in a
// session's share of memory until then. A look ends in time though the body does not come.
//
// It says nothing of what it read, and is for bodies whose reads cannot be broken off
// without breaking the body: a read that is under way when the time is over goes on, and
// what it gives comes next.
//
// Most readers want [New], [Reader.Look] and [Reader.End].
package ahead

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"cloister/internal/budget"
)

// ErrMore says that a body is longer than what is looked at.
var ErrMore = errors.New("more than is looked at")

// piece is how much is read at once.
const piece = 4 << 10

// A Reader is a body with its beginning. Look is called once, before the first Read.
type Reader struct {
	from  io.ReadCloser
	share *budget.Share
	most  int
	done  chan struct{} // closed once nothing is read ahead any more

	mu      sync.Mutex
	text    []byte
	held    int64 // of the share
	err     error // that comes after the text
	stopped bool
}

// New looks at most bytes of a body, which count in the share.
func New(from io.ReadCloser, share *budget.Share, most int) *Reader {
	return &Reader{from: from, share: share, most: most, done: make(chan struct{})}
}

// Look gives what came within that time, until the body is read. The error is io.EOF where
// that is all, ErrMore where there is more than is looked at, nil where the rest was late,
// or why there is no rest.
func (r *Reader) Look(ctx context.Context, within time.Duration) ([]byte, error) {
	go r.run()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	if len(r.text) > r.most {
		return r.text[:r.most], ErrMore
	}
	return r.text, r.err
}

// run reads ahead until there is enough, or no more is wanted.
func (r *Reader) run() {
	defer close(r.done)
	for p := make([]byte, piece); r.wants(); {
		n, err := r.from.Read(p)
		r.mu.Lock()
		r.text, r.err = append(r.text, p[:n]...), err
		r.mu.Unlock()
	}
}

// wants reports whether more is to be read, and has memory for a piece of it.
func (r *Reader) wants() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || r.err != nil || len(r.text) > r.most {
		return false
	}
	if len(r.text)+piece <= cap(r.text) {
		return true
	}
	size := max(2*piece, 2*cap(r.text))
	need := int64(size + piece) // with the piece that is read
	if r.err = r.share.Take(need - r.held); r.err != nil {
		return false
	}
	r.held = need
	r.text = append(make([]byte, 0, size), r.text...)
	return true
}

// Read gives what was read ahead, and then the rest.
func (r *Reader) Read(p []byte) (int, error) {
	if n, err := r.next(p); n > 0 || err != nil {
		return n, err
	}
	<-r.done
	if n, err := r.next(p); n > 0 || err != nil {
		return n, err
	}
	return r.from.Read(p)
}

func (r *Reader) next(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.text) == 0 {
		return 0, r.err
	}
	n := copy(p, r.text)
	if r.text = r.text[n:]; len(r.text) == 0 {
		r.free()
	}
	return n, nil
}

func (r *Reader) free() {
	r.share.Give(r.held)
	r.text, r.held = nil, 0
}

// Close closes the body.
func (r *Reader) Close() error { return r.from.Close() }

// End gives back what is held, once nothing is read ahead any more: the end of a look that
// Look began, or of none. A body of which a read is under way is closed.
func (r *Reader) End() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	select {
	case <-r.done:
	default:
		_ = r.from.Close() // the read that is under way ends by it
		<-r.done
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free(); r.err == nil {
		r.err = io.ErrUnexpectedEOF
	}
}
