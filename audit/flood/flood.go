// Package flood counts what a session is refused, or does, too often to be recorded
// one by one.
//
// It promises that every event is accounted for: by a record of its own, or by a
// sum that says how many it stands for, and that the record tells where counting
// began. It writes nothing: its caller asks Spend for every event.
package flood

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/audit"
)

// What of one session's refusals is recorded one by one: a burst, then so many a
// second. What is more is counted, and reported in records of their own: a program that
// is refused a million times must not fill the disk (LG-04). Questions and
// answers are always recorded. The record says where counting began, so
// that it is true also where a guardian is killed before it has written the number.
const (
	refusalBurst = 1000
	refusalRate  = 20.0 // a second
	// Every is how often sums are reported.
	Every = 10 * time.Second
)

// Budget is what the sessions have left.
type Budget struct {
	mu   sync.Mutex
	left map[string]*allowance // by session ID
}

type allowance struct {
	tokens   float64
	at       time.Time
	unsaid   map[audit.Kind]*audit.Event // what was left out, by kind: the first one, with their number
	reported time.Time

	bytes   float64 // left for allowed traffic
	filled  time.Time
	counted map[group]*audit.Event // what was left out of that: the first one, with their number
	summed  time.Time
}

// New gives every session a full allowance.
func New() *Budget { return &Budget{left: map[string]*allowance{}} }

// counting is what the last refusal says that is recorded by itself.
const counting = "; further refusals of this kind are counted, and not recorded one by one"

// Spend reports whether an event is recorded by itself, with another reason where it
// is the last for now. due are the sums whose time it is: they are recorded, and
// then no more.
func (b *Budget) Spend(e *audit.Event, now time.Time) (record bool, due []audit.Event) {
	if e.SessionID == "" {
		return true, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.left[e.SessionID]
	switch {
	case e.Kind == audit.SessionStop && a != nil:
		delete(b.left, e.SessionID)
		return true, append(a.sums(), a.counts()...)
	case !denial(*e) && !traffic(e):
		return true, nil
	case a == nil:
		a = &allowance{
			tokens: refusalBurst, at: now, unsaid: map[audit.Kind]*audit.Event{}, reported: now,
			bytes: allowedBurst, filled: now, summed: now,
		}
		b.left[e.SessionID] = a
	}
	if traffic(e) {
		return a.allow(e, now)
	}
	a.tokens = min(refusalBurst, a.tokens+now.Sub(a.at).Seconds()*refusalRate)
	a.at = now
	if now.Sub(a.reported) >= Every {
		due, a.reported = a.sums(), now
	}
	if a.tokens >= 1 {
		a.tokens--
		return true, due
	}
	first := a.unsaid[e.Kind]
	if first == nil {
		kept := *e // a copy: e itself stays off the heap
		a.unsaid[e.Kind] = &kept
		e.Reason += counting
		return true, due
	}
	first.Suppressed++
	return false, due
}

// Late are the sums whose time it is although nothing is refused any more.
func (b *Budget) Late(now time.Time) []audit.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []audit.Event
	for _, id := range slices.Sorted(maps.Keys(b.left)) {
		if a := b.left[id]; len(a.unsaid) > 0 && now.Sub(a.reported) >= Every {
			out, a.reported = append(out, a.sums()...), now
		}
		if a := b.left[id]; len(a.counted) > 0 && now.Sub(a.summed) >= Every {
			out, a.summed = append(out, a.counts()...), now
		}
	}
	return out
}

// denial reports whether an event tells of something that did not happen, and of
// nothing else.
func denial(e audit.Event) bool {
	switch e.Kind {
	case audit.NetDNS, audit.NetConnect, audit.HTTPRequest, audit.MCPCall, audit.SecretUse, audit.HostexecRequest:
		return e.Verdict == "deny" || e.Verdict == "ask" // no person could be asked
	case audit.FileDenied: // what a person could have been asked about: each open makes one
		return e.Verdict == "ask" || asked(&e)
	}
	return false
}

// asked reports whether an answer of a person decided, of now or of earlier.
func asked(e *audit.Event) bool {
	return e.Rule == "approval" || strings.HasPrefix(e.Rule, "approval ")
}

// sums are the records of what was left out, and end it.
func (a *allowance) sums() []audit.Event {
	var out []audit.Event
	for _, kind := range slices.Sorted(maps.Keys(a.unsaid)) {
		e := *a.unsaid[kind]
		if e.Suppressed == 0 {
			continue
		}
		e.Action, e.Time = "suppressed", time.Time{}
		e.Reason = fmt.Sprintf("%d refusals of this kind were counted and not recorded one by one, behind this one: this "+
			"session is refused too often; %s", e.Suppressed, e.Reason)
		out = append(out, e)
	}
	clear(a.unsaid)
	return out
}

// Rest are the sums of every session, for the guardian's end.
func (b *Budget) Rest() []audit.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []audit.Event
	for _, id := range slices.Sorted(maps.Keys(b.left)) {
		out = append(out, append(b.left[id].sums(), b.left[id].counts()...)...)
	}
	return out
}
