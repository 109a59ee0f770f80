package session

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"cloister/api/client"
)

// TooSlow is the error for a box that was granted, and in which no command ran in time.
type TooSlow struct {
	Isolation string
	Within    time.Duration
}

// Error says what was waited for.
func (t *TooSlow) Error() string {
	return fmt.Sprintf("the command did not run within %s, which --isolation %s may take: "+
		"the machine has too much to do, or something of that level hangs", t.Within, t.Isolation)
}

// nativeWithin is StartWithin of a driver that says nothing: a thousand times what native needs
// on a quiet machine.
const nativeWithin = 10 * time.Second

// perPath is how much longer a start may take for each path that a policy names: a hundred
// times what it takes on a quiet machine.
const perPath = 10 * time.Millisecond

// paths is what the paths that policies name add to the bound of a start.
func (s *Shim) paths() time.Duration {
	return time.Duration(len(s.View.Closed)+len(s.Judged)+len(s.Permits.List)) * perPath
}

// untilStarted bounds the wait for a guardian that hangs and, from granted on, for the box, and
// lets a signal end either. started ends both bounds and gives the caller's context back, with a
// signal that came too late to end the start: it is the command's.
func (s *Shim) untilStarted(
	whole context.Context,
) (ctx context.Context, granted func(), started func() (context.Context, os.Signal)) {
	ctx, cancel := context.WithCancelCause(whole)
	var late os.Signal
	stop, stopped := make(chan struct{}), make(chan struct{})
	grant := make(chan struct{})
	go func() {
		defer close(stopped)
		why := client.ErrNoAnswer
		limit := time.NewTimer(client.OpenWithin + s.paths())
		defer limit.Stop()
		waits := grant
		for {
			select {
			case <-stop:
				return
			case <-waits:
				waits = nil
				slow := &TooSlow{s.Request.Isolation, cmp.Or(s.StartWithin, nativeWithin) + s.paths()}
				why = slow
				limit.Reset(slow.Within)
			case <-limit.C:
				cancel(why)
			case sig := <-s.Signals:
				if n, ok := sig.(syscall.Signal); ok && n != syscall.SIGWINCH {
					late = n
					cancel(&Interrupted{n})
				}
			}
		}
	}()
	end := sync.OnceFunc(func() {
		close(stop)
		<-stopped
		cancel(nil)
	})
	return ctx, sync.OnceFunc(func() { close(grant) }), func() (context.Context, os.Signal) {
		end()
		return whole, late
	}
}
