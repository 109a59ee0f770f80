package verdict

import (
	"slices"

	"cloister/egress/internal/wire"
)

// An Edit changes one allowed request on its way up, and the answer to it on its
// way down, in HTTP/1.1 and HTTP/2 alike. A nil field changes nothing. Its
// functions are called once each, in the order in which they stand here, and
// not at the same time; the bodies that they leave are read meanwhile.
type Edit struct {
	// Request is given the request before a byte of it goes up. Until it returns
	// nothing does, so that it may read the whole body first (bounded by itself).
	Request func(*Message) error
	// Response is given the final answer before a byte of it goes down, a 101
	// too.
	Response func(*Message) error
	// Trailer is given the fields behind the answer's body.
	Trailer func(*Header)
	// Frames is asked where the exchange becomes a WebSocket. No extension is agreed
	// on then, so that what passes can be read.
	Frames func() Frames
}

// Frames looks at the data of a WebSocket's messages, and of pings and their like. Its
// functions for what goes up and what comes down may be called at the same time.
type Frames struct {
	// Up is given what the program sends, with the end of each frame; an error breaks
	// the connection off. Control is given the whole data of a ping, a pong or an end.
	Up      func(p []byte, end bool) error
	Control func(p []byte) error
	// Down appends to out what the program gets of p, from the server: by the end of
	// each message as much as came.
	Down func(out, p []byte, end bool) []byte
	// DownControl is what the program gets of the whole data of a ping, a pong or an
	// end, as long as that.
	DownControl func(p []byte) []byte
}

// EditRequest runs the edits of a request, first to last.
func (m *Message) EditRequest(edits []Edit) error {
	for _, e := range edits {
		if e.Request == nil {
			continue
		}
		if err := m.checked(e.Request(m)); err != nil {
			return err
		}
	}
	if m.Query != "" {
		if err := wire.CheckTarget(m.Query); err != nil {
			return refusedBy(err)
		}
	}
	return nil
}

// EditResponse runs the edits of an answer, last to first, so that what went up
// last comes down first.
func (m *Message) EditResponse(edits []Edit) error {
	for _, e := range slices.Backward(edits) {
		if e.Response == nil {
			continue
		}
		if err := m.checked(e.Response(m)); err != nil {
			return err
		}
	}
	return nil
}

// EditTrailers runs the edits of trailers; what cannot be changed is left out.
func EditTrailers(edits []Edit, fields wire.Header) wire.Header {
	h := &Header{fields: slices.Clone(fields)}
	for _, e := range slices.Backward(edits) {
		if e.Trailer != nil {
			e.Trailer(h)
		}
	}
	if h.err != nil {
		return nil
	}
	return h.fields
}

func ReadsFrames(edits []Edit) bool {
	return slices.ContainsFunc(edits, func(e Edit) bool { return e.Frames != nil })
}
