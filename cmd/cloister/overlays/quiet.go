package overlays

import (
	"context"
	"errors"
	"time"

	"cloister/session/kept"
	"cloister/state/store"
)

// QuietFor is how long nothing may be written before a checkpoint is made by itself:
// the agent waits for its person, or thinks.
const QuietFor = 20 * time.Second

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
			if err = a.saveQuiet(ctx, use); err == nil {
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
	return a.locked(ctx, use, func(h *kept.Hand, w *store.Workspace) error { return w.GoOn(h.Freezer(ctx, use.Name)) })
}

func (a *Commands) saveQuiet(ctx context.Context, use *store.Use) error {
	return a.locked(ctx, use, func(h *kept.Hand, w *store.Workspace) error {
		_, err := h.SaveByItself(ctx, w, "nothing was written for a while", "")
		return err
	})
}

// locked does something to a workspace that no one else acts on meanwhile.
func (a *Commands) locked(ctx context.Context, use *store.Use, do func(*kept.Hand, *store.Workspace) error) error {
	h, err := a.hand(ctx)
	if err != nil {
		return err
	}
	w, err := h.Store.Lock(use.Name)
	if err != nil {
		return err
	}
	return errors.Join(do(h, w), w.Close())
}
