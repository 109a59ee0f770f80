package verdict

import (
	"net/netip"
	"time"

	"cloister/internal/authority"
)

// A Flow is what became of one connection or request.
type Flow struct {
	Kind         QueryKind // Connect, Request, or Resolve for a refused question
	Authority    authority.Authority
	Via          string
	Method, Path string
	Status       int            // HTTP status given to the program, 0 if none
	Dialed       netip.AddrPort // zero when nothing was dialled
	Reason       string         // why it was refused or how it ended early; empty for a plain end
	Rule, Place  string         // the bound that refused it, and where it is written; empty for none
	Hints        []string       // the words that would widen it
	Detail       string         // the evidence, such as the other name; may hold hostile bytes, quoted
	Further      uint64         // more like this one that it stands for: datagrams, counted
	Up, Down     int64          // bytes of payload: from the program, to the program
	Start        time.Time
	Duration     time.Duration

	Retry time.Duration
}

// A Journal records what the engine found out by itself.
type Journal interface {
	// Closed tells the end of a connection or request that had been allowed.
	Closed(Flow)
	// Refused tells a refusal for a reason of protocol or of address. The
	// refusal stands whatever it returns; after an error the program gets a
	// bare reset instead of an explanation.
	Refused(Flow) error
}
