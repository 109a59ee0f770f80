// Package refused reads which datagrams the packet rules of a gate refused, and counts
// them for each destination.
//
// The kernel tells of a refusal beside it, and waits for no reader: the refusal stands
// whatever is read. The package promises that a destination is reported when it first
// occurs, that each further datagram is counted, also one that the kernel's queue had no
// room for, and that neither memory, nor reports, nor the time that reading takes grow
// with what a payload sends: at most Most destinations are reported in a Period, and
// counts at its end.
//
// It refuses nothing itself, and does not know names. Most readers want Log.Serve.
package refused

import (
	"context"
	"net/netip"
	"time"

	"cloister/internal/origin"
)

// Most is how many destinations are reported in a Period.
const Most = 128

// Period is how long a destination is counted without a report.
const Period = time.Hour

// Between two looks at the kernel's queue lies a pause: what does not fit there
// meanwhile is lost, but for its number.
const (
	perLook = 1024
	pause   = 100 * time.Millisecond
)

// A Report says that datagrams to a destination were refused.
type Report struct {
	// To is where; invalid for all that are counted together. Port 0: it was not read.
	To netip.AddrPort
	// Further is how many there were since the first, which was reported by itself:
	// then it is 0.
	Further uint64
}

// A Log counts. Its zero value is ready.
type Log struct {
	Report func(Report)

	further map[netip.AddrPort]uint64
	rest    uint64 // beyond Most, or lost by the kernel's queue
	lost    uint32 // of rest, as the kernel counts, which begins again after 2^32
}

// Source gives the messages of the kernel.
type Source interface {
	// Wait returns when there is one, ctx has ended, or at a time.
	Wait(ctx context.Context, until time.Time) error
	// Next gives one that is there: false for none. It is valid until the next call.
	Next() ([]byte, bool)
	// Lost is how many the kernel had no room for.
	Lost() (uint32, error)
}

// Serve reads until ctx ends, and then reports what it counted.
func (l *Log) Serve(ctx context.Context, s Source) error {
	var err error
	if l.lost, err = s.Lost(); err != nil {
		return err
	}
	defer l.flush()
	end := time.Now().Add(Period)
	for {
		if err := s.Wait(ctx, end); err != nil {
			return err
		}
		if !time.Now().Before(end) {
			l.flush()
			end = time.Now().Add(Period)
		}
		if err := l.look(s); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return l.look(s)
		case <-time.After(pause):
		}
	}
}

func (l *Log) look(s Source) error {
	for range perLook {
		m, ok := s.Next()
		if !ok {
			break
		}
		l.take(m)
	}
	lost, err := s.Lost()
	l.rest += uint64(lost - l.lost)
	l.lost = lost
	return err
}

// take counts what one read of the kernel's socket gave.
func (l *Log) take(text []byte) {
	to, ok := origin.Refused(text)
	if !ok {
		return
	}
	if n, seen := l.further[to]; seen {
		l.further[to] = n + 1
		return
	}
	if len(l.further) >= Most {
		l.rest++
		return
	}
	if l.further == nil {
		l.further = map[netip.AddrPort]uint64{}
	}
	l.further[to] = 0
	l.Report(Report{To: to})
}

// flush reports what was counted, and begins anew.
func (l *Log) flush() {
	for to, n := range l.further {
		if n > 0 {
			l.Report(Report{To: to, Further: n})
		}
	}
	if l.rest > 0 {
		l.Report(Report{Further: l.rest})
	}
	clear(l.further)
	l.rest = 0
}
