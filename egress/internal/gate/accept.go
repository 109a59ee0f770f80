package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"cloister/egress/internal/sock"
	"cloister/internal/budget"
)

// An Acceptor accepts the connections of one session.
type Acceptor struct {
	Memory *budget.Share // of the session
	Log    *slog.Logger
	Go     func(func()) // begins a goroutine that the session waits for
}

// connMemory is what a connection holds: goroutines, the first bytes that are looked at
// and, where it is opened, TLS on both sides.
const connMemory = 32 << 10

// Serve accepts until the listener is closed. Beyond the slots, of which each open
// connection has one, a connection is reset at once, and full is called with the reason.
func (a Acceptor) Serve(ctx context.Context, ln net.Listener, slots chan struct{}, full func(string),
	handle func(context.Context, net.Conn)) error {
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept on %s: %w", ln.Addr(), err)
			}
			if !Pause(ctx, a.Log, err) {
				return nil
			}
			continue
		}
		if a.Memory.Take(connMemory) != nil {
			full(budget.ErrFull.Error())
			sock.Reset(c)
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			a.Memory.Give(connMemory)
			full("more than " + strconv.Itoa(cap(slots)) + " connections at once")
			sock.Reset(c)
			continue
		}
		a.Go(func() {
			defer func() { <-slots; a.Memory.Give(connMemory) }()
			handle(ctx, c)
		})
	}
}

// Pause waits after an error of accept or receive (out of descriptors or
// memory, an ICMP error), so that it is no busy loop. False: ctx ended.
func Pause(ctx context.Context, log *slog.Logger, err error) bool {
	log.Warn("egress listener", "error", err)
	t := time.NewTimer(20 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
