// Package recorder writes the audit of a guardian for as long as that lives.
//
// Promise: an error of Append means that it is not recorded and may not happen;
// once the log has latched, every Append fails until a new one could be opened on
// what is really on the disk. What a session is refused too often is counted, and
// no number is lost.
//
// It decides nothing, and stops no one by itself.
//
// Most readers want [Open].
package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"cloister/audit"
	"cloister/audit/flood"
)

// reopenEvery is how soon a broken audit is tried again: RS-04 wants work to
// resume within 5 s after space returns.
const reopenEvery = time.Second

// Recorder is the audit with a second life: once the log has latched, every
// Append fails until a new one could be opened on what is really on the disk.
type Recorder struct {
	dir      string
	logger   *slog.Logger
	recorded func(audit.Event)
	budget   *flood.Budget

	mu     sync.RWMutex
	log    *audit.Log // nil while broken and not yet open again
	broken error
	loud   bool // the operator knows
	wake   chan struct{}
}

// Open opens the record in dir; recorded receives every event once it is written.
func Open(dir string, logger *slog.Logger, recorded func(audit.Event)) (*Recorder, error) {
	log, err := audit.Open(dir, audit.Options{Appended: recorded})
	if errors.Is(err, audit.ErrInUse) {
		return nil, fmt.Errorf("%w: a guardian of these state folders runs already, with another XDG_RUNTIME_DIR than this "+
			"one; use that, or end it there with cloister guardian stop", err)
	}
	if err != nil {
		return nil, advise(dir, err)
	}
	return &Recorder{dir: dir, logger: logger, recorded: recorded, log: log, budget: flood.New(),
		wake: make(chan struct{}, 1)}, nil
}

// advise adds what a person can do.
func advise(dir string, err error) error {
	var bad *audit.BadRecord
	switch {
	case errors.As(err, &bad):
		return fmt.Errorf("%w: look with `cloister audit verify`, then move %s away to begin a new record, which will say so",
			err, dir)
	case isSpace(err):
		return fmt.Errorf("%w: make space, nothing runs unrecorded", err)
	}
	return err
}

// Ended records what was allowed before and has ended: nothing waits for it.
func (r *Recorder) Ended(e audit.Event) error {
	record, due := r.budget.Spend(&e, time.Now())
	r.mu.RLock()
	log, broken := r.log, r.broken
	r.mu.RUnlock()
	if log == nil {
		return broken
	}
	for _, sum := range due {
		if err := r.woken(log, log.AppendSoon(sum)); err != nil {
			return err
		}
	}
	if !record {
		return nil
	}
	return r.woken(log, log.AppendSoon(e))
}

// Append records an event, or counts it; the error says why nothing may happen.
func (r *Recorder) Append(ctx context.Context, e audit.Event) error {
	record, due := r.budget.Spend(&e, time.Now())
	if err := r.writeAll(ctx, due); err != nil {
		return err
	}
	if !record {
		return r.Err()
	}
	return r.write(ctx, e)
}

// Note records what has happened already and cannot be stopped any more: where that fails
// the operator is notified.
func (r *Recorder) Note(ctx context.Context, e audit.Event) {
	if err := r.Append(ctx, e); err != nil {
		r.logger.Error("an event could not be recorded", "session", e.Session, "kind", e.Kind, "action", e.Action, "error",
			err)
	}
}

func (r *Recorder) writeAll(ctx context.Context, events []audit.Event) error {
	for _, e := range events {
		if err := r.write(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// write writes one event, or says why nothing may happen.
func (r *Recorder) write(ctx context.Context, e audit.Event) error {
	r.mu.RLock()
	log, broken := r.log, r.broken
	r.mu.RUnlock()
	if log == nil {
		return broken
	}
	return r.woken(log, log.Append(ctx, e))
}

// woken has a log opened anew that an append found broken.
func (r *Recorder) woken(log *audit.Log, err error) error {
	if err != nil && log.Err() != nil {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// Flush gives a reader of the files what only waits to be written.
func (r *Recorder) Flush() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.log != nil {
		_ = r.log.Flush() // the next append says so
	}
}

// Err is why the audit cannot be written, nil while it can.
func (r *Recorder) Err() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.log == nil {
		return r.broken
	}
	return r.log.Err()
}

// Watch reopens a broken log, and tells what was counted, until ctx ends.
func (r *Recorder) Watch(ctx context.Context) {
	tell := time.NewTicker(flood.Every)
	defer tell.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tell.C:
			if err := r.writeAll(ctx, r.budget.Late(now)); err != nil {
				r.logger.Error("a sum of refusals could not be recorded", "error", err)
			}
		case <-r.wake: // an append failed
		}
		for err := r.Err(); err != nil; err = r.Err() {
			r.reopen(ctx, err)
			timer := time.NewTimer(reopenEvery)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
	}
}

func (r *Recorder) reopen(ctx context.Context, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loud {
		r.loud = true
		r.logger.Error("the audit cannot be written: every request is refused", "error", why)
	}
	if r.log != nil {
		r.broken = why
		_ = r.log.Close() // its failure is known
		r.log = nil
	}
	log, err := audit.Open(r.dir, audit.Options{Appended: r.recorded})
	if err == nil {
		err = log.Append(ctx, audit.Event{
			Kind:   audit.GuardianStart,
			Action: "resume",
			Reason: "the audit could not be written, everything was refused meanwhile: " + r.broken.Error(),
		})
		if err != nil {
			_ = log.Close()
		}
	}
	if err != nil {
		return
	}
	r.log, r.broken, r.loud = log, nil, false
	r.logger.Info("the audit is written again")
}

// Rest tells what was counted, at the end of the guardian.
func (r *Recorder) Rest(ctx context.Context) {
	for _, sum := range r.budget.Rest() {
		if err := r.write(ctx, sum); err != nil {
			r.logger.Error("a sum of refusals could not be recorded", "session", sum.Session, "error", err)
		}
	}
}

// Close makes everything durable.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		return r.broken
	}
	return r.log.Close()
}

// isSpace says that a disk is full or a quota is met.
func isSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
