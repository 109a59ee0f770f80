package serve

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloister/internal/freeze"
	"cloister/sandbox"
)

// Pause stops the sandbox. With memory its processes are held still where they are; else
// they end, and the files are kept. It says false for one that is paused already.
func (s *Sandbox) Pause(ctx context.Context, memory bool) (bool, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	live, state := s.live, s.record.State
	s.mu.Unlock()
	switch state {
	case ended:
		return false, ErrNone
	case Paused:
		return false, nil
	case Running:
	}
	if !memory || live == nil {
		return true, s.pauseCold(ctx)
	}
	thaw, err := sandbox.Hold(live.Driver, live.Handle)
	if err != nil {
		return false, fmt.Errorf("pause sandbox: %w", err)
	}
	s.mu.Lock()
	s.thaw, s.record.State, s.record.Cold = thaw, Paused, false
	s.mu.Unlock()
	return true, s.save()
}

func (s *Sandbox) pauseCold(ctx context.Context) error {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.leave()
	err := s.host.Engine.Stop(ctx, s.host.place(s.tenant.Name), s.record.ID, "it is paused")
	if err != nil && !errors.Is(err, ErrNoSession) {
		return fmt.Errorf("pause sandbox: %w", err)
	}
	s.mu.Lock()
	s.live, s.pool, s.ending = nil, nil, false
	s.record.State, s.record.Cold = Paused, true
	s.mu.Unlock()
	return s.save()
}

// Resume goes on with a paused sandbox, for a time from now on. It says false for one
// that runs, whose time is only extended.
func (s *Sandbox) Resume(ctx context.Context, d time.Duration) (bool, error) {
	if d < 0 || d > s.tenant.Limits.Lifetime {
		return false, tooLong(s.tenant.Limits)
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	switch s.Record().State {
	case ended:
		return false, ErrNone
	case Running:
		return false, s.SetEnd(d, true)
	case Paused:
	}
	s.mu.Lock()
	live, thaw, cold := s.live, s.thaw, s.record.Cold
	s.mu.Unlock()
	var err error
	switch {
	case cold || live == nil:
		err = s.begin(ctx)
	case thaw == nil: // an earlier server had held it
		if thaw, err = sandbox.Hold(live.Driver, live.Handle); err == nil {
			err = thaw()
		}
	default:
		err = thaw()
	}
	if err != nil && !errors.Is(err, freeze.ErrRan) { // what ran meanwhile goes on as well
		return false, fmt.Errorf("resume sandbox: %w", err)
	}
	s.mu.Lock()
	s.thaw, s.record.State, s.record.Cold = nil, Running, false
	s.record.End = time.Now().Add(d)
	s.mu.Unlock()
	return true, s.save()
}
