package mcp

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
)

// A Budget bounds the memory of all frames that are being read at once.
type Budget struct {
	most int64
	used atomic.Int64
}

// NewBudget is a budget of that many bytes.
func NewBudget(most int64) *Budget { return &Budget{most: most} }

// Hold is what one reader has of a budget. It is used by one goroutine.
type Hold struct {
	budget *Budget
	n      int64
}

// Hold begins to take of the budget.
func (b *Budget) Hold() *Hold { return &Hold{budget: b} }

// Take takes n more, or tells that there is not so much.
func (h *Hold) Take(n int) bool {
	if h.budget.used.Add(int64(n)) > h.budget.most {
		h.budget.used.Add(int64(-n))
		return false
	}
	h.n += int64(n)
	return true
}

// Release gives all back.
func (h *Hold) Release() {
	h.budget.used.Add(-h.n)
	h.n = 0
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
