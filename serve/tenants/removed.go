package tenants

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// endWithin is how long a server may take to end what it was just having made.
const endWithin = 2 * time.Minute

// EndRemoved has the instance of a tenant ended that was removed, and waits for a server that
// answers for it: each sandbox has its folder before its session begins, until it is over.
func (r *Register) EndRemoved(ctx context.Context, name string, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	for {
		left, err := filepath.Glob(filepath.Join(r.Home(name), "sandboxes", "*"))
		if err != nil {
			return err
		}
		if err := end(ctx); err != nil {
			return err
		}
		served, err := r.served()
		if err != nil || !served || len(left) == 0 {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the server has not ended %d sandboxes: %w", len(left), ctx.Err())
		}
	}
}

// served reports whether a server answers for these tenants.
func (r *Register) served() (bool, error) {
	f, err := r.Alone()
	if errors.Is(err, ErrServed) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, f.Close()
}
