package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"cloister/internal/budget"
)

// Hold is what one frame that is being read, judged or sent has of its session's memory.
type Hold struct {
	memory *budget.Share

	mu    sync.Mutex
	n     int64
	ended bool
}

// NewHold begins to take of that memory.
func NewHold(memory *budget.Share) *Hold { return &Hold{memory: memory} }

// Take takes n more, or tells that there is not so much, or that it has ended.
func (h *Hold) Take(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || h.memory.Take(int64(n)) != nil {
		return false
	}
	h.n += int64(n)
	return true
}

// Keep gives back all but n.
func (h *Hold) Keep(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if over := h.n - int64(n); over > 0 {
		h.memory.Give(over)
		h.n -= over
	}
}

// End gives all back, and takes no more.
func (h *Hold) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.memory.Give(h.n)
	h.n, h.ended = 0, true
}

// A Sent is a frame on its way: it is counted until its last byte is read, or
// no one reads it any more.
type Sent struct {
	from bytes.Reader
	hold *Hold
	stop func() bool
}

// Send is a frame that is read once, by a reader that ends with ctx.
func (h *Hold) Send(ctx context.Context, frame []byte) *Sent {
	h.Keep(cap(frame))
	s := &Sent{hold: h, stop: context.AfterFunc(ctx, h.End)}
	s.from.Reset(frame)
	return s
}

// Read gives the frame.
func (s *Sent) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if s.from.Len() == 0 && s.stop() {
		s.from.Reset(nil)
		s.hold.End()
	}
	return n, err // io.EOF
}

// weigh takes what a frame will need once it is read: a small value is far larger
// then.
func (h *Hold) weigh(frame []byte) bool {
	const each = 200
	values := bytes.Count(frame, []byte(",")) + bytes.Count(frame, []byte("[")) + bytes.Count(frame, []byte("{"))
	return h.Take(each * min(values, maxValues))
}

// errCrowded ends a frame for which there is no memory.
var errCrowded = errors.New("too many large MCP frames at once")

// crowded is the refusal for it.
func crowded() *Refused {
	v := Answer{Reason: errCrowded.Error() + "; try again"}
	return &Refused{Status: 503, Verdict: v, Answer: failure(nil, codeRefused, v)}
}

// ReadFrame reads a whole body as one frame. The error is a *Refused, or that of
// the reader.
func ReadFrame(in io.Reader, hold *Hold) ([]byte, error) {
	var out []byte
	for {
		if len(out) == cap(out) {
			if !hold.Take(max(len(out), 4096)) {
				return nil, crowded()
			}
			out = append(make([]byte, 0, max(2*cap(out), 4096)), out...)
		}
		n, err := in.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case len(out) > MaxFrame:
			return nil, unreadable("somebody", errTooLarge)
		case errors.Is(err, io.EOF):
			if !hold.weigh(out) {
				return nil, crowded()
			}
			return out, nil
		case err != nil:
			return nil, err
		}
	}
}

var errTooLarge = errors.New("a frame of more than 8 MiB")
