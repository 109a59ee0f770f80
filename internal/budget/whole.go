package budget

import (
	"context"
	"errors"
	"io"
	"sync"
)

// ErrLong says that a body is longer than one that is held may be.
var ErrLong = errors.New("it is longer than what may be held of one")

// A Whole is a body that is in memory. It counts until it is read again, or until the
// request that it belongs to is over.
type Whole struct {
	share *Share
	text  []byte
	mine  int64
	once  sync.Once
	stop  func() bool
}

// Whole reads a body to its end, and takes what it holds as it grows. An error is
// ErrFull, ErrLong, or from's own.
func (s *Share) Whole(ctx context.Context, from io.Reader, most int) (*Whole, error) {
	w := &Whole{share: s}
	for {
		if len(w.text) == cap(w.text) {
			if err := w.grow(min(len(w.text), most+1-len(w.text))); err != nil {
				w.release()
				return nil, err
			}
		}
		n, err := from.Read(w.text[len(w.text):cap(w.text)])
		w.text = w.text[:len(w.text)+n]
		switch {
		case len(w.text) > most:
			err = ErrLong
		case errors.Is(err, io.EOF):
			w.stop = context.AfterFunc(ctx, w.release)
			return w, nil
		}
		if err != nil {
			w.release()
			return nil, err
		}
	}
}

// first is what a body is given to begin with.
const first = 4 << 10

func (w *Whole) grow(more int) error {
	more = max(more, first)
	if err := w.share.Take(int64(more)); err != nil {
		return err
	}
	w.mine += int64(more)
	w.text = append(make([]byte, 0, len(w.text)+more), w.text...)
	return nil
}

// Bytes are what is left to be read.
func (w *Whole) Bytes() []byte { return w.text }

// Replace puts another text in its place.
func (w *Whole) Replace(text []byte) error {
	if more := int64(len(text)) - w.mine; more > 0 {
		if err := w.share.Take(more); err != nil {
			return err
		}
		w.mine += more
	}
	w.text = text
	return nil
}

// Read reads it, and gives back what it holds at its end.
func (w *Whole) Read(p []byte) (int, error) {
	n := copy(p, w.text)
	if w.text = w.text[n:]; len(w.text) > 0 {
		return n, nil
	}
	w.Close()
	return n, io.EOF
}

// Close gives back what it holds.
func (w *Whole) Close() {
	if w.stop() { // else it does so itself
		w.release()
	}
}

func (w *Whole) release() { w.once.Do(func() { w.share.Give(w.mine) }) }
