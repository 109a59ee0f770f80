package inject

import (
	"cloister/egress/verdict"
	"cloister/secret"
)

// inFrame is the place of what a program says once its exchange is a WebSocket.
const inFrame = "frame of a WebSocket"

// frames looks at the frames of a WebSocket: what the program sends is searched for
// placeholders, as a body is, and what comes for values of secrets.
func (e *edit) frames() verdict.Frames {
	find, seen := e.s.finder.Stream(), false
	up := func(find *secret.Search, p []byte) error {
		if seen {
			return nil
		}
		i := find.Write(p)
		if i < 0 {
			return nil
		}
		seen = true
		return e.misplaced(&e.head, i, inFrame)
	}
	var scrubber *secret.Scrubber
	var scrub *secret.Scrub
	return verdict.Frames{
		Up:      func(p []byte, _ bool) error { return up(find, p) },
		Control: func(p []byte) error { return up(e.s.finder.Stream(), p) },
		Down: func(out, p []byte, end bool) []byte {
			if scrub == nil {
				if scrubber = e.s.Scrubber(); scrubber == nil {
					return append(out, p...)
				}
				scrub = scrubber.Stream()
			}
			out = scrub.Write(out, p)
			if end {
				// A message must not wait for the next. What a value begins with has gone then,
				// and the rest of it is still known.
				out = scrub.Yield(out)
				if next := e.s.Scrubber(); next != scrubber { // a value is new since
					scrubber, scrub = next, nil
				}
			}
			return out
		},
		DownControl: func(p []byte) []byte {
			by := e.s.Scrubber()
			if by == nil {
				return p
			}
			s := by.Stream()
			return s.Flush(s.Write(nil, p))
		},
	}
}
