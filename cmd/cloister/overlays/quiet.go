package overlays

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloister/state/layers"
	"cloister/state/store"
)

const (
	// QuietFor is how long nothing may be written before a checkpoint is made by itself:
	// the agent waits for its person, or thinks.
	QuietFor = 20 * time.Second
	// A copy of more would hold the command still for too long (0.03 s for 200 files).
	quietEntries = 3000
	quietBytes   = 128 << 20
)

// CheckpointQuiet makes checkpoints of a kept workspace by itself while its session runs:
// whenever something was written and then nothing for a while. The function that it gives
// ends that, and says why one was left out.
func (a *Commands) CheckpointQuiet(ctx context.Context, use *store.Use, every time.Duration) (end func() []string) {
	if use == nil {
		return func() []string { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- a.watchQuiet(ctx, use, every) }()
	return func() []string {
		cancel()
		if err := <-done; err != nil {
			return []string{"cloister: some automatic checkpoint was not made: " + err.Error()}
		}
		return nil
	}
}

func (a *Commands) watchQuiet(ctx context.Context, use *store.Use, every time.Duration) (last error) {
	before, err := use.Look()
	if err != nil {
		return err
	}
	saved := before.Digest // what was there when the session began is in no danger
	next := time.NewTimer(every)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return last
		case <-next.C:
		}
		if err := a.letGoOn(ctx, use); err != nil {
			last = err
		}
		began := time.Now()
		now, err := use.Look()
		if err == nil && now.Digest == before.Digest && now.Digest != saved {
			if err = a.saveQuiet(ctx, use, now); err == nil {
				saved = now.Digest
			}
		}
		if err != nil && ctx.Err() == nil {
			last = err // the look as well: files come and go under it
		}
		before = now
		next.Reset(max(every, 100*time.Since(began))) // at most a hundredth of a processor
	}
}

// letGoOn lets the command go on where a checkpoint of it was killed in the midst.
func (a *Commands) letGoOn(ctx context.Context, use *store.Use) error {
	if !use.HeldStill() {
		return nil
	}
	h, err := a.hand()
	if err != nil {
		return err
	}
	w, err := h.Store.Lock(use.Name)
	if err != nil {
		return err
	}
	return errors.Join(w.GoOn(h.Freezer(ctx, use.Name)), w.Close())
}

func (a *Commands) saveQuiet(ctx context.Context, use *store.Use, size layers.Sum) error {
	if size.Entries > quietEntries || size.Bytes > quietBytes {
		return fmt.Errorf("%d files with %d bytes changed, too many to copy beside the command: cloister checkpoint %s "+
			"makes one", size.Entries, size.Bytes, use.Name)
	}
	h, err := a.hand()
	if err != nil {
		return err
	}
	w, err := h.Store.Lock(use.Name)
	if err != nil {
		return err
	}
	_, err = h.Save(ctx, w, "nothing was written for a while", true)
	return errors.Join(err, w.Close())
}
