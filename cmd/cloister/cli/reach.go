package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/guardian"
	"cloister/guardian/folders"
)

// Dial reaches a guardian that runs already.
func (a *App) Dial(ctx context.Context) (*client.Client, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	a.Log().Debug("dial the guardian", "socket", folders.Socket(d))
	c, err := client.Dial(ctx, folders.Socket(d))
	if errors.Is(err, client.ErrNotRunning) {
		return nil, Hinted(err, "start it: cloister guardian start")
	}
	return c, err
}

// Reach is dial for whoever asks about cloisters. Where the guardian is gone and
// cloisters live on, another is started, which takes them over: without one they
// would look as if they were gone too.
func (a *App) Reach(ctx context.Context) (*client.Client, error) {
	c, err := a.Dial(ctx)
	if err == nil {
		if _, err = c.Status(ctx); err == nil {
			return c, nil
		}
		c.Close() // one that is dying still takes connections
	}
	if !errors.Is(err, client.ErrNotRunning) {
		return nil, err
	}
	d, dirErr := a.Dirs()
	if dirErr != nil || !guardian.Survived(d) {
		return nil, err
	}
	a.Notice("cloister: the guardian was gone and cloisters live on: another takes them over")
	for range 3 {
		if c, err = a.Ensure(ctx); err != nil {
			return nil, err
		}
		if err = Settled(ctx, c); err == nil {
			return c, nil
		}
		c.Close()
		if !errors.Is(err, client.ErrNotRunning) {
			break
		}
	}
	return nil, err
}

// Settled waits a little until no cloister is shown as starting. Those that live on
// without a guardian look for a new one every 100 ms and are shown so until then.
func Settled(ctx context.Context, c *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, ComeBack)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := c.Sessions(ctx, false)
		starting := slices.ContainsFunc(found, func(s api.SessionInfo) bool { return s.State == api.StateStarting })
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil || !starting {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Patience is how long a guardian may take to start.
const Patience = 10 * time.Second

// Ensure reaches the guardian, and starts one where there is none.
func (a *App) Ensure(ctx context.Context) (*client.Client, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	if outdated(d) {
		if err := a.replaceIdle(ctx, d); err != nil {
			return nil, err
		}
	}
	var taken *takenError
	for {
		c, err := client.Ensure(ctx, folders.Socket(d), func() error {
			a.Log().Debug("start a guardian", "log", LogFile(d))
			return a.spawnGuardian(d)
		})
		// Another one is on its way in, then it will answer, or on its way
		// out, then there is room for ours.
		if now, ok := errors.AsType[*takenError](err); ok {
			taken = now
		} else if err != nil && taken != nil && ctx.Err() != nil {
			return nil, taken // why it took so long
		} else {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-tick.C:
		}
	}
}

func (a *App) WithGuardian(ctx context.Context, f func(*client.Client) error) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return f(c)
}

// Living are the sessions that go on; none where there is no guardian.
func (a *App) Living(ctx context.Context) ([]api.SessionInfo, error) {
	c, err := a.Reach(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Sessions(ctx, false)
}

// ComeBack is how long a session may take to come back to a guardian that has
// just started. It looks for one every 100 ms.
const ComeBack = 5 * time.Second
