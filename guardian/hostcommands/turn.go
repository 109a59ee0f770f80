package hostcommands

import (
	"context"
	"errors"
	"time"

	"cloister/hostexec"
)

const (
	// A session gets this many checkpoints at once, and one more in each turnEvery: more
	// turns than that no agent has, and each holds the cloister still for a moment.
	turnsAtOnce = 10
	turnEvery   = 5 * time.Second
)

// serveTurn keeps what the session's workspace is before a turn of its agent.
func (h *hosted) serveTurn(ctx context.Context) hostexec.Exit {
	s := h.s
	h.line = hostexec.Turn
	switch {
	case s.Keep == nil:
		return h.refuse(ctx, &hostexec.Refused{Reason: "this cloister has no overlay workspace"})
	case !s.turn(time.Now()):
		return h.refuse(ctx, &hostexec.Refused{Reason: "too many turns in a short time: no checkpoint is made"})
	}
	why := "before a turn"
	prompt, conversation := h.conn.Hook(ctx)
	if prompt != "" {
		why += ": " + prompt
	}
	if err := s.Keep(ctx, why, conversation); err != nil {
		return h.refuse(ctx, err)
	}
	return hostexec.Exit{}
}

// turn takes one of the checkpoints that the session gets.
func (s *Session) turn(now time.Time) bool {
	s.turning.Lock()
	defer s.turning.Unlock()
	// turns is the time until which all are taken.
	if begin := now.Add(-turnsAtOnce * turnEvery); s.turns.Before(begin) {
		s.turns = begin
	}
	if s.turns.Add(turnEvery).After(now) {
		return false
	}
	s.turns = s.turns.Add(turnEvery)
	return true
}

// keepBefore keeps what the workspace is before something that a person was asked about. It
// does not depend on it: what is given is why there is none, for the record.
func (s *Session) keepBefore(ctx context.Context, line string) (note string) {
	if s.Keep == nil {
		return ""
	}
	if err := s.Keep(ctx, "before a host command: "+line, ""); err != nil && !errors.Is(err, context.Canceled) {
		return "; no checkpoint before it: " + err.Error()
	}
	return ""
}
