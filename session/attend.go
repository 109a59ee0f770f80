package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"cloister/api/client"
	"cloister/internal/exactjson"
	"cloister/sandbox"
)

// stopGrace is how long a command may take to end when it is asked to.
const stopGrace = 5 * time.Second

// Interrupted says that a signal came before the command ran, or when it was over.
type Interrupted struct{ Signal syscall.Signal }

func (e *Interrupted) Error() string { return "interrupted by " + e.Signal.String() }

// cause is why a context ended, where that explains the error.
func cause(ctx context.Context, err error) error {
	why := context.Cause(ctx)
	_, stopped := errors.AsType[*Interrupted](why)
	_, slow := errors.AsType[*TooSlow](why)
	if stopped || slow || errors.Is(why, client.ErrNoAnswer) {
		return why
	}
	return err
}

// UntilSignal gives a context that a signal ends which ends a program: what is done once a
// session is over has no command any more to pass it to. stop ends the wait for one.
func UntilSignal(whole context.Context, signals <-chan os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(whole)
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-over:
				return
			case sig := <-signals:
				if n, ok := sig.(syscall.Signal); ok && n != syscall.SIGWINCH {
					cancel(&Interrupted{n})
				}
			}
		}
	}()
	return ctx, func() {
		close(over)
		<-watched
		cancel(nil)
	}
}

// describeAfter is how long a command lives before what a later exec needs is
// deposited: many commands are over before a person could type exec.
const describeAfter = 10 * time.Millisecond

// describe deposits what a later exec needs. What is made and covered inside is there
// already, and the kernel's judge, where it judges, has what it judges.
func (s *Shim) describe(link *client.Link, spec sandbox.Spec) error {
	spec.Files, spec.Links, spec.Argv, spec.Protect, spec.Judged = nil, nil, nil, nil, nil
	text, err := exactjson.Marshal(spec)
	if err != nil {
		return fmt.Errorf("describe the cloister: %w", err)
	}
	if len(s.Order) > 0 {
		text = fmt.Appendf(text[:len(text)-1], `,"order":%s}`, s.Order)
	}
	if err := link.Describe(text); err != nil {
		return fmt.Errorf("describe the cloister: %w", err)
	}
	return nil
}

// attend passes signals on and waits for the end.
func (s *Shim) attend(ctx context.Context, link *client.Link, box sandbox.Box, spec sandbox.Spec, res *Result,
	over func(sandbox.Status, error)) (sandbox.Status, error) {
	type outcome struct {
		status sandbox.Status
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		status, err := box.Wait()
		done <- outcome{status, err}
	}()
	var deadline, grace, hangUp <-chan time.Time
	if s.Timeout > 0 {
		t := time.NewTimer(s.Timeout)
		defer t.Stop()
		deadline = t.C
	}
	ask := func(why string) {
		res.Stopped = why
		if grace == nil {
			grace, hangUp = time.After(stopGrace), time.After(hangUpAfter)
		}
		// An error means that the command has ended meanwhile: done tells.
		_ = box.Signal(syscall.SIGTERM)
	}
	cancelled := ctx.Done()
	young := time.NewTimer(describeAfter)
	defer young.Stop()
	alone := endOf(box)
	for {
		select {
		case status := <-alone:
			// No process is left inside, and none can have joined: the kernel takes
			// the enclosure down on one processor, this tidies up on another.
			over(status, nil)
			alone = nil
		case <-young.C:
			alone = nil // from here on a second command may live beside this one
			if err := s.describe(link, spec); err != nil {
				return sandbox.Status{}, errors.Join(err, box.Close())
			}
		case o := <-done:
			return o.status, o.err
		case sig := <-s.Signals:
			pass(box, sig)
		case why := <-link.Stopped():
			ask(why)
		case <-deadline:
			res.TimedOut = true
			ask("its time is over")
		case <-cancelled:
			cancelled = nil
			ask("cancelled")
		case why := <-s.End:
			ask(why)
		case <-hangUp:
			// Shells at a terminal pass over the first, and obey this one.
			_ = box.Signal(syscall.SIGHUP)
		case <-grace:
			grace = nil
			if err := box.Close(); err != nil {
				return sandbox.Status{}, err
			}
		}
	}
}

// endOf tells, where the box can, how all inside has ended before it is gone.
func endOf(box sandbox.Box) <-chan sandbox.Status {
	if b, ok := box.(sandbox.EarlyEnder); ok {
		return b.Alone()
	}
	return nil
}

// pass hands a signal to the command; a changed window is not a signal but a
// size. An error means that the command has ended: Wait tells.
func pass(box sandbox.Box, sig os.Signal) {
	if sig != syscall.SIGWINCH {
		_ = box.Signal(sig)
		return
	}
	if r, ok := box.(sandbox.Resizer); ok {
		_ = r.Resize()
	}
}
