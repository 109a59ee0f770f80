package guardian

import "time"

const (
	// sweeps is how often is looked, at least, with waits from sweepFirst on that
	// double. A sweep sees by the locks of a shim that it is dead: the kernel closes
	// its descriptors one after another, and on a busy machine later than the link.
	sweeps     = 3
	sweepFirst = 400 * time.Millisecond
	// sweepLast is the longest wait for what cannot be removed now: containers of
	// an engine that is away until someone starts it.
	sweepLast = 10 * time.Second
)

// sweepSoon has the host swept: a session that is over may have left something.
func (g *guardian) sweepSoon() {
	select {
	case g.left <- struct{}{}:
	default: // it is about to be
	}
}

// sweep removes what sessions left on the host: a shim that was killed all it had,
// one whose engine was away its containers.
func (g *guardian) sweep() {
	if g.o.Sweep == nil {
		return
	}
	var (
		next    <-chan time.Time // look; nil while there is nothing to look for
		wait    time.Duration
		looks   int
		failing error
	)
	for {
		select {
		case <-g.ctx.Done():
			return // the next guardian sweeps when it starts
		case <-g.left:
			looks, wait = 0, sweepFirst
			next = time.After(wait)
			continue
		case <-next:
		}
		var alive []string
		for _, info := range g.sessions.List(false) {
			alive = append(alive, info.ID)
		}
		err := g.o.Sweep(g.ctx, alive)
		switch {
		case err != nil && failing == nil && g.ctx.Err() == nil:
			g.notice(err.Error() + " (tried again until nothing is left)")
		case err == nil && failing != nil:
			g.log.Info("what sessions left is removed")
		}
		failing, next = err, nil
		if looks++; looks < sweeps || err != nil {
			wait = min(2*wait, sweepLast)
			next = time.After(wait)
		}
	}
}
