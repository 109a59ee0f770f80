package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cloister/internal/freeze"
	"cloister/sandbox"
	"cloister/serve/files"
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
	if u, no := errors.AsType[*sandbox.Unsupported](err); no {
		return false, &BadRequest{What: "pause: " + u.Reason + " keep the memory: a pause with memory false keeps the files"}
	}
	if err != nil {
		return false, fmt.Errorf("pause sandbox: %w", err)
	}
	s.mu.Lock()
	s.thaw, s.record.State, s.record.Cold = thaw, Paused, false
	s.mu.Unlock()
	return true, s.save()
}

// keepFor is how long after its end a sandbox's files are tried to be kept. What is in them, and what runs beside the
// program that packs them, may have each attempt fail.
const keepFor = time.Minute

// notKept is the error of files that did not come to this host.
type notKept struct{ error }

func (e *notKept) Unwrap() error { return e.error }

// carryWithin bounds what carries the files of a sandbox to or from this host: the program that reads and writes them
// runs beside a payload, which has it be slow or stops it.
const carryWithin = 15 * time.Minute

// carrying gives the context of that. The sandbox's end does not wait for it.
func (s *Sandbox) carrying(ctx context.Context) (_ context.Context, over func()) {
	ctx, stop := context.WithTimeout(ctx, carryWithin)
	s.mu.Lock()
	s.carry = stop
	s.mu.Unlock()
	return ctx, func() {
		stop()
		s.mu.Lock()
		s.carry = nil
		s.mu.Unlock()
	}
}

// pauseCold ends the processes. The files are on this host, or are brought to it first.
func (s *Sandbox) pauseCold(ctx context.Context) error {
	s.mu.Lock()
	live, pool := s.live, s.pool
	s.mu.Unlock()
	if live != nil {
		if _, away := live.Driver.(sandbox.Elsewhere); away { // they end with the session
			carry, over := s.carrying(ctx)
			err := pool.Keep(carry, Home, s.kept(), maxSnapshot, tooMuch())
			over()
			if errors.Is(err, context.DeadlineExceeded) {
				err = &Over{fmt.Sprintf("the files of a sandbox may take %v to the server", carryWithin)}
			}
			if err != nil {
				return fmt.Errorf("pause sandbox: %w", &notKept{err})
			}
		}
	}
	// It is paused before it is stopped: of a server that is killed in between its files are the next one's.
	state := func(to State, cold bool) error {
		s.mu.Lock()
		s.record.State, s.record.Cold = to, cold
		s.mu.Unlock()
		return s.save()
	}
	err := state(Paused, true)
	if err == nil {
		err = s.halt(ctx)
	}
	if err != nil {
		return errors.Join(err, state(Running, false))
	}
	return nil
}

// halt ends the session of the sandbox.
func (s *Sandbox) halt(ctx context.Context) error {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.leave()
	err := s.host.Engine.Stop(ctx, s.host.place(s.tenant.Name), s.record.ID, "it is paused")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = false
	if err != nil && !errors.Is(err, ErrNoSession) {
		return fmt.Errorf("pause sandbox: %w", err)
	}
	s.live, s.pool = nil, nil
	return nil
}

// kept is where the files of a paused sandbox lie whose session was on another host.
func (s *Sandbox) kept() string { return filepath.Join(s.dir(), "files.tar") }

// again begins a session with the files that the sandbox had.
func (s *Sandbox) again(ctx context.Context) error {
	s.mu.Lock()
	halfway := s.live != nil
	s.mu.Unlock()
	if halfway { // a server that was killed had begun one, or had not stopped it yet
		if err := s.halt(ctx); err != nil {
			return err
		}
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	live := *s.live
	s.mu.Unlock()
	if _, err := os.Lstat(s.kept()); errors.Is(err, fs.ErrNotExist) {
		return nil // they are on this host
	}
	p := files.Pool{Start: func(ctx context.Context) (*files.Program, error) { return s.host.helper(ctx, live, "files") }}
	defer p.Close()
	carry, over := s.carrying(ctx)
	defer over()
	if err := p.Give(carry, Home, s.kept()); err != nil {
		return errors.Join(err, s.halt(ctx)) // it stays paused
	}
	return nil
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
		err = s.again(ctx)
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
	if err := s.save(); err != nil {
		return true, err
	}
	_ = os.Remove(s.kept()) // there may be none
	return true, nil
}
