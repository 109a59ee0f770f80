package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Stream is a server's stream of events (text/event-stream) as it goes down:
// each message judged by itself, nothing held back that is whole.
type Stream struct {
	ctx  context.Context
	gate *Gate
	in   *bufio.Reader
	hold *Hold
	// endpoint receives the path that a server of the older transport names for
	// what goes up; its error ends the stream.
	endpoint func(string) error
	out      bytes.Buffer
	err      error
	stop     func() bool
	begun    bool
	cr       bool // the line before ended in CR: an LF belongs to it
}

// NewStream filters in. endpoint is nil where no such event is expected.
func NewStream(ctx context.Context, g *Gate, in io.Reader, hold *Hold, endpoint func(string) error) *Stream {
	return &Stream{ctx: ctx, gate: g, in: bufio.NewReaderSize(in, 4096), hold: hold, endpoint: endpoint,
		stop: context.AfterFunc(ctx, hold.End)}
}

// Read gives what goes down. A *Refused is the error of a message that cannot.
func (s *Stream) Read(p []byte) (int, error) {
	for s.out.Len() == 0 && s.err == nil {
		if s.out.Cap() > maxIdle {
			s.out = bytes.Buffer{}
		}
		// What went down is gone; what waits for it until then is in the budget.
		s.hold.Keep(0)
		s.err = s.event()
		s.hold.Keep(s.out.Cap())
	}
	if s.out.Len() > 0 {
		return s.out.Read(p)
	}
	s.stop()
	s.hold.End()
	return 0, s.err
}

// maxIdle is what a stream keeps of its memory while it waits for the next event.
const maxIdle = 64 << 10

// event reads one event and writes what is left of it. What a stream ends in
// without an empty line is no event.
func (s *Stream) event() error {
	var fields, data [][]byte
	kind, size := "", 0
	for {
		line, err := s.line(MaxFrame - size)
		if err != nil {
			return err
		}
		size += len(line) + 1
		switch {
		case len(line) == 0 && len(fields) == 0 && data == nil:
			s.out.WriteByte('\n')
			return nil
		case len(line) == 0:
			return s.dispatch(kind, fields, data)
		case line[0] == ':':
			if len(fields) == 0 && data == nil { // it keeps the connection alive, and no client waits for it
				s.out.Write(line)
				s.out.WriteByte('\n')
				return nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			data = append(data, value)
		case "event":
			kind = string(value)
			fields = append(fields, line)
		case "id", "retry":
			fields = append(fields, line)
		}
	}
}

// line reads up to a line end: LF, CR LF or CR.
func (s *Stream) line(most int) ([]byte, error) {
	if !s.begun {
		s.begun = true
		if mark, err := s.in.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
			_, _ = s.in.Discard(3)
		}
	}
	var out []byte
	for {
		b, err := s.in.ReadByte()
		if err != nil {
			return nil, err // half a line is none
		}
		after := s.cr
		s.cr = b == '\r'
		switch {
		case b == '\n' && after:
			continue
		case b == '\n', b == '\r':
			return out, nil
		case len(out) >= most:
			return nil, unreadable("the server", fmt.Errorf("an event of more than %d bytes", MaxFrame))
		}
		if len(out) == cap(out) {
			grown := max(2*cap(out), 256)
			if !s.hold.Take(grown - len(out)) {
				return nil, crowded()
			}
			out = append(make([]byte, 0, grown), out...)
		}
		out = append(out, b)
	}
}

func (s *Stream) dispatch(kind string, fields, data [][]byte) error {
	text := bytes.Join(data, []byte("\n"))
	switch {
	case kind == "endpoint":
		if s.endpoint == nil {
			return unreadable("the server", errors.New("an endpoint on a stream that has none"))
		}
		if err := s.endpoint(strings.TrimSpace(string(text))); err != nil {
			return unreadable("the server", err)
		}
	case kind != "" && kind != "message":
		return nil // no client waits for it, and no rule can judge it
	case len(text) > 0:
		if !s.hold.weigh(text) {
			return crowded()
		}
		kept, err := s.gate.Down(s.ctx, text)
		if err != nil {
			return err
		}
		if kept == nil {
			return nil
		}
		text = kept
	}
	for _, f := range fields {
		s.out.Write(f)
		s.out.WriteByte('\n')
	}
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if data != nil {
			s.out.WriteString("data: ")
			s.out.Write(line)
			s.out.WriteByte('\n')
		}
	}
	s.out.WriteByte('\n')
	return nil
}
