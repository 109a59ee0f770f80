package hostexec

import (
	"encoding/binary"
	"fmt"
	"io"
)

// A connection begins with one line of JSON, a Request. After it both sides send
// frames: a kind, a length, a payload.
type frameKind byte

const (
	frameStdin  frameKind = 'i' // to the host; empty: its end
	frameSignal frameKind = 's' // to the host; one byte, the signal's number
	frameStdout frameKind = 'o'
	frameStderr frameKind = 'e'
	frameMore   frameKind = 'm' // four bytes: so much more input may be sent
	frameNotice frameKind = 'n' // words for the caller, not the command's
	frameExit   frameKind = 'x' // the last one: an Exit
)

// maxFrame bounds one payload.
const maxFrame = 64 << 10

func writeFrame(w io.Writer, kind frameKind, payload []byte) error {
	for first := true; first || len(payload) > 0; first = false {
		n := min(len(payload), maxFrame)
		frame := make([]byte, 5, 5+n)
		frame[0] = byte(kind)
		binary.BigEndian.PutUint32(frame[1:], uint32(n))
		if _, err := w.Write(append(frame, payload[:n]...)); err != nil {
			return err
		}
		payload = payload[n:]
	}
	return nil
}

func readFrame(r io.Reader) (frameKind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("read frame: %d bytes, at most %d", n, maxFrame)
	}
	payload := make([]byte, n)
	_, err := io.ReadFull(r, payload)
	return frameKind(head[0]), payload, err
}

// stream is an io.Writer that makes frames of one kind.
type stream struct {
	c    *Conn
	kind frameKind
}

func (s stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if s.c.shown != nil {
		s.c.shown(s.kind == frameStderr, p)
	}
	if err := s.c.write(s.kind, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
