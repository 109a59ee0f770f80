package mcpservice

import (
	"bytes"
	"context"
	"io"

	"cloister/egress/verdict"
	"cloister/internal/reading"
	"cloister/mcp"
)

// mostBlank bounds the white space before a body that may be JSON.
const mostBlank = 4 << 10

// begin reads how a body begins: whether it may be JSON, and why readers may differ
// about that. What it gives is the whole body.
func begin(from io.Reader) (body io.Reader, json bool, odd string) {
	head := make([]byte, 0, mostBlank)
	for {
		is, why, sure := reading.JSON(head)
		if sure {
			return io.MultiReader(bytes.NewReader(head), from), is, why
		}
		if len(head) == cap(head) {
			return io.MultiReader(bytes.NewReader(head), from), true, "it begins with white space alone"
		}
		n, err := from.Read(head[len(head):min(len(head)+512, cap(head))])
		head = head[:len(head)+n]
		if err != nil {
			is, why, _ = reading.JSON(head)
			return io.MultiReader(bytes.NewReader(head), failing{err}), is, why
		}
	}
}

// failing is what is left of a body whose end, or failure, was met.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A frame is one on its way through, whose memory is counted until it has gone.
type frame struct {
	ctx  context.Context // of the request
	m    *verdict.Message
	hold *mcp.Hold
	sent bool
}

func (r *route) frame(ctx context.Context, m *verdict.Message) *frame {
	return &frame{ctx: ctx, m: m, hold: mcp.NewHold(r.d.memory)}
}

func (f *frame) send(text []byte) {
	f.m.SetBody(f.hold.Send(f.ctx, text), int64(len(text)))
	f.sent = true
}

// end gives the memory of one back that goes nowhere.
func (f *frame) end() {
	if !f.sent {
		f.hold.End()
	}
}
