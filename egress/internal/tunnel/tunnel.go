// Package tunnel copies between a program and a server, each direction by a pump.
//
// Promise: the end of one direction is passed on as a half-close, a failure ends both;
// what is copied is counted before it is written where a quota is given, and what waits
// for bytes holds no buffer of the pool.
//
// It dials nothing, decides nothing and records nothing.
//
// Most readers want [New], then [Tunnel.StartDown] and [Tunnel.Finish].
package tunnel

import (
	"errors"
	"net"
	"time"

	"cloister/egress/internal/buffer"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
)

// CanSplice reports whether io.Copy between the two is the kernel's.
func CanSplice(dst, src net.Conn) bool {
	_, d := dst.(*net.TCPConn)
	_, s := src.(*net.TCPConn)
	return d && s
}

// A Tunnel is two pumps with one fate: the end of one direction is passed on
// as a half-close, a failure ends both. The downward one may start earlier.
type Tunnel struct {
	Up, Down   *Pump
	halfClosed time.Duration
	Done       chan error // of Down
}

// New is a tunnel that nothing has passed yet.
func New(client, upstream net.Conn, b *buffer.Pool, halfClosed time.Duration) *Tunnel {
	return &Tunnel{
		Up:         &Pump{dst: upstream, src: client, buffers: b},
		Down:       &Pump{dst: client, src: upstream, buffers: b},
		halfClosed: halfClosed,
		Done:       make(chan error, 1),
	}
}

// StartDown lets the upstream speak. Whoever calls it calls Finish or HaltDown.
func (t *Tunnel) StartDown() {
	go func() { t.Done <- t.direction(t.Down, t.Up) }()
}

// HaltDown stops what StartDown began, and reports whether the upstream had said
// nothing at all and still can.
func (t *Tunnel) HaltDown() bool {
	t.Down.halt()
	err := <-t.Done
	_ = t.Down.src.SetReadDeadline(time.Time{}) // as above: a closed one tells later
	return errors.Is(err, errHalted) && t.Down.N.Load() == 0
}

// Finish copies upward, and returns when both directions have ended.
func (t *Tunnel) Finish() error {
	err := t.direction(t.Up, t.Down)
	return errors.Join(err, <-t.Done)
}

// direction runs one pump and passes its end on.
func (t *Tunnel) direction(p, other *Pump) error {
	err := p.run()
	switch {
	case errors.Is(err, errHalted):
	case err == nil:
		// A peer that is gone for good looks the same as one that only ended
		// its sending, so the other direction may not be silent for ever.
		other.Limit(t.halfClosed)
		if peek.CloseWrite(p.dst) != nil {
			return nil // it is gone already; the other direction sees that
		}
	case errors.Is(err, sock.ErrWrite):
		// What the receiver sent before it went may still be on its way down.
		other.Limit(t.halfClosed)
	default:
		sock.Reset(p.dst)
		sock.Reset(p.src)
	}
	return err
}
