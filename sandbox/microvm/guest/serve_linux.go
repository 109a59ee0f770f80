package guest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"cloister/sandbox/microvm/wire"
)

// gathering holds the streams of commands that are not complete.
type gathering struct{ gather sync.Mutex }

// parts are the streams of a command: of its words, and of its descriptors.
type parts struct {
	words *yamux.Stream
	run   *wire.Run
	std   [3]*yamux.Stream
}

// complete reports whether all that a command needs has come.
func (p *parts) complete() bool {
	if p.run == nil {
		return false
	}
	for i := range p.std {
		if p.std[i] == nil && p.carries(i) {
			return false
		}
	}
	return true
}

// carries reports whether a descriptor has a stream of its own.
func (p *parts) carries(i int) bool {
	if !p.run.Terminal[i] {
		return true
	}
	for j := range i {
		if p.run.Terminal[j] {
			return false
		}
	}
	return true
}

// serve takes what the monitor asks for.
func (g *guest) serve(ctx context.Context) error {
	go func() {
		for {
			s, err := g.s.AcceptStream()
			if err != nil {
				g.stop(fmt.Errorf("the monitor is gone: %w", err))
				return
			}
			go g.stream(ctx, s)
		}
	}()
	return <-g.ended
}

func (g *guest) stream(ctx context.Context, s *yamux.Stream) {
	var h wire.Head
	if err := wire.Hear(s, &h); err != nil {
		_ = s.Close()
		return
	}
	switch {
	case h.Run != nil:
		g.part(h.Run.ID, func(p *parts) { p.words, p.run = s, h.Run })
	case h.Std != nil && h.Std.FD >= 0 && h.Std.FD < 3:
		g.part(h.Std.Run, func(p *parts) { p.std[h.Std.FD] = s })
	case h.Dial != 0:
		dial(ctx, s, h.Dial)
	default:
		_ = s.Close()
	}
}

// part adds a stream to its command, which starts once it is complete.
func (g *guest) part(id uint32, set func(*parts)) {
	g.gather.Lock()
	p := g.waiting[id]
	if p == nil {
		p = &parts{}
		g.waiting[id] = p
	}
	set(p)
	if g.first == nil && p.run != nil {
		g.first = p.run.Env
	}
	whole := p.complete()
	if whole {
		delete(g.waiting, id)
	}
	g.gather.Unlock()
	if whole {
		g.run(p)
	}
}

// dialWithin bounds one connection to this guest's own loopback.
const dialWithin = 30 * time.Second

// dial connects to a port that something inside listens on. The first byte is 1 if it does.
func dial(ctx context.Context, s *yamux.Stream, port uint16) {
	d := net.Dialer{Timeout: dialWithin}
	var c net.Conn
	var err error
	for _, host := range []string{"127.0.0.1", "::1"} {
		c, err = d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(port))))
		if err == nil {
			break
		}
	}
	if err != nil {
		_, _ = s.Write([]byte{0}) // the monitor may be gone
		_ = s.Close()
		return
	}
	if _, err := s.Write([]byte{1}); err != nil {
		_ = c.Close()
		return
	}
	wire.Carry(s, c.(*net.TCPConn)) // it was dialled as one
}
