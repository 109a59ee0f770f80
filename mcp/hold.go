package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// A Budget bounds the memory of all frames that are being read, judged or sent at
// once.
type Budget struct {
	most int64
	used atomic.Int64
}

// NewBudget is a budget of that many bytes.
func NewBudget(most int64) *Budget { return &Budget{most: most} }

// Hold is what one frame has of a budget.
type Hold struct {
	budget *Budget

	mu    sync.Mutex
	n     int64
	ended bool
}

// Hold begins to take of the budget.
func (b *Budget) Hold() *Hold { return &Hold{budget: b} }

// Take takes n more, or tells that there is not so much, or that it has ended.
func (h *Hold) Take(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended || h.budget.used.Add(int64(n)) > h.budget.most {
		if !h.ended {
			h.budget.used.Add(int64(-n))
		}
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
		h.budget.used.Add(-over)
		h.n -= over
	}
}

// End gives all back, and takes no more.
func (h *Hold) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.budget.used.Add(-h.n)
	h.n, h.ended = 0, true
}

// A Sent is a frame on its way: the budget has it until its last byte is read, or
// nobody reads it any more.
type Sent struct {
	from bytes.Reader
	hold *Hold
	stop func() bool
}

// Send is a frame that is read once, by who ends with ctx.
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
	return n, err //nolint:wrapcheck // io.EOF
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
	v := Verdict{Reason: errCrowded.Error() + "; try again"}
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
