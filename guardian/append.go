package guardian

import (
	"context"
	"time"

	"cloister/audit"
)

// ended records what was allowed before and has ended: nothing waits for it.
func (r *recorder) ended(e audit.Event) error {
	r.mu.RLock()
	log, broken := r.log, r.broken
	r.mu.RUnlock()
	if log == nil {
		return broken
	}
	return r.woken(log, log.AppendSoon(e))
}

// append records an event, or counts it; the error says why nothing may happen.
func (r *recorder) append(ctx context.Context, e audit.Event) error {
	record, due := r.budget.Spend(&e, time.Now())
	if err := r.writeAll(ctx, due); err != nil {
		return err
	}
	if !record {
		return r.err()
	}
	return r.write(ctx, e)
}

func (r *recorder) writeAll(ctx context.Context, events []audit.Event) error {
	for _, e := range events {
		if err := r.write(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
