package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// WriteFrame writes bytes with their number before them.
func WriteFrame(w io.Writer, p []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...))
	return err
}

// ReadFrame reads what WriteFrame wrote.
func ReadFrame(r io.Reader, most int) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if uint64(n) > uint64(most) {
		return nil, fmt.Errorf("a frame has %d bytes, of at most %d", n, most)
	}
	p := make([]byte, n)
	_, err := io.ReadFull(r, p)
	return p, err
}

// maxFrame bounds a piece of a body.
const maxFrame = 256 << 10

// Body writes a text of unknown length into a stream, in frames. Close ends it.
type Body struct{ W io.Writer }

// Write writes pieces.
func (b Body) Write(p []byte) (int, error) {
	done := 0
	for len(p) > 0 {
		n := min(len(p), maxFrame)
		if err := WriteFrame(b.W, p[:n]); err != nil {
			return done, err
		}
		done, p = done+n, p[n:]
	}
	return done, nil
}

// Close says that nothing follows.
func (b Body) Close() error { return WriteFrame(b.W, nil) }

// Text reads what a Body wrote, to its end.
type Text struct {
	R    io.Reader
	rest []byte
	over bool
}

// Read reads, and gives io.EOF at the end of the text.
func (t *Text) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		if t.over {
			return 0, io.EOF
		}
		piece, err := ReadFrame(t.R, maxFrame)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		t.rest, t.over = piece, len(piece) == 0
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}
