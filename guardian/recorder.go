package guardian

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cloister/audit"
	"cloister/audit/flood"
)

// reopenEvery is how soon a broken audit is tried again: RS-04 wants work to
// resume within 5 s after space returns.
const reopenEvery = time.Second

// recorder is the audit with a second life: once the log has latched, every
// append fails until a new one could be opened on what is really on the disk.
type recorder struct {
	dir    string
	logger *slog.Logger
	told   func(audit.Event)
	budget *flood.Budget

	mu     sync.RWMutex
	log    *audit.Log // nil while broken and not yet open again
	broken error
	loud   bool // the operator knows
	wake   chan struct{}
}

func openRecorder(dir string, logger *slog.Logger, told func(audit.Event)) (*recorder, error) {
	log, err := audit.Open(dir, audit.Options{Appended: told})
	if errors.Is(err, audit.ErrInUse) {
		return nil, fmt.Errorf("%w: a guardian of these state folders runs already, with another XDG_RUNTIME_DIR than this one; use that, or end it there with cloister guardian stop", err)
	}
	if err != nil {
		return nil, advise(dir, err)
	}
	return &recorder{dir: dir, logger: logger, told: told, log: log, budget: flood.New(), wake: make(chan struct{}, 1)}, nil
}

// advise adds what a person can do.
func advise(dir string, err error) error {
	var bad *audit.BadRecord
	switch {
	case errors.As(err, &bad):
		return fmt.Errorf("%w: look with `cloister audit verify`, then move %s away to begin a new record", err, dir)
	case isSpace(err):
		return fmt.Errorf("%w: make space, nothing runs unrecorded", err)
	}
	return err
}

// write writes one event, or says why nothing may happen.
func (r *recorder) write(ctx context.Context, e audit.Event) error {
	r.mu.RLock()
	log, broken := r.log, r.broken
	r.mu.RUnlock()
	if log == nil {
		return broken
	}
	return r.woken(log, log.Append(ctx, e))
}

// woken has a log opened anew that an append found broken.
func (r *recorder) woken(log *audit.Log, err error) error {
	if err != nil && log.Err() != nil {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// flush gives a reader of the files what only waits to be written.
func (r *recorder) flush() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.log != nil {
		_ = r.log.Flush() // the next append says so
	}
}

// err is why the audit cannot be written, nil while it can.
func (r *recorder) err() error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.log == nil {
		return r.broken
	}
	return r.log.Err()
}

// watch reopens a broken log, and tells what was counted, until ctx ends.
func (r *recorder) watch(ctx context.Context) {
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
		for err := r.err(); err != nil; err = r.err() {
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

func (r *recorder) reopen(ctx context.Context, why error) {
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
	log, err := audit.Open(r.dir, audit.Options{Appended: r.told})
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

func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		return r.broken
	}
	return r.log.Close()
}
