package terminal

import (
	"encoding/binary"
	"fmt"
	"io"
)

// frameKind is the first byte of a frame; four bytes of length follow.
type frameKind byte

// Frames to the program: what is typed, and a size. Frames to a terminal: what
// it shows, a note to lie over it, and the end.
const (
	frameInput  frameKind = 'i'
	frameSize   frameKind = 's'
	frameOutput frameKind = 'o'
	frameNote   frameKind = 'n'
	frameEnd    frameKind = 'e'
)

// maxFrame bounds one frame: a replay has a history of 1 MiB and a screen.
const maxFrame = 64 << 20

func send(w io.Writer, kind frameKind, body []byte) error {
	out := make([]byte, 5, 5+len(body))
	out[0] = byte(kind)
	binary.BigEndian.PutUint32(out[1:], uint32(len(body)))
	if _, err := w.Write(append(out, body...)); err != nil {
		return fmt.Errorf("write to terminal: %w", err)
	}
	return nil
}

func receive(r io.Reader) (frameKind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return frameKind(head[0]), body, nil
}
