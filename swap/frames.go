package swap

import (
	"cloister/egress"
	"cloister/secret"
)

// inFrame is the place of what a program says once its exchange is a WebSocket.
const inFrame = "frame of a WebSocket"

// frames looks at the frames of a WebSocket: what the program sends is searched for
// placeholders, as a body is, and what comes for values that were sent.
func (e *edit) frames() egress.Frames {
	find, seen := e.s.finder.Stream(), false
	var scrubber *secret.Scrubber
	var scrub *secret.Scrub
	return egress.Frames{
		Up: func(p []byte, _ bool) error {
			if seen {
				return nil
			}
			i := find.Write(p)
			if i < 0 {
				return nil
			}
			seen = true
			return e.misplaced(&e.head, i, inFrame)
		},
		Down: func(out, p []byte, end bool) []byte {
			if scrub == nil {
				if scrubber = e.s.scrubber(); scrubber == nil {
					return append(out, p...)
				}
				scrub = scrubber.Stream()
			}
			out = scrub.Write(out, p)
			if end {
				// A frame must not wait for the next. What a value begins with has gone then,
				// and the rest of it is still known.
				out = scrub.Yield(out)
				if next := e.s.scrubber(); next != scrubber { // a value was sent since
					scrubber, scrub = next, next.Stream()
				}
			}
			return out
		},
	}
}
