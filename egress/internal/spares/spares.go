// Package spares keeps connections to servers, at the end of a message, whose program
// has gone, for the same session's next connection to the same name.
//
// They are few and kept for seconds. It does not know what is spoken on them.
package spares

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"cloister/internal/authority"
)

const (
	// keptFor is how long a connection to a server is kept for the program's next
	// one: agents and package managers open one for each request. Many servers
	// close an idle one after 5 s and more.
	keptFor = 5 * time.Second
	// most bounds them in a session.
	most = 32
)

// A Spare is one connection.
type Spare struct {
	To     authority.Authority
	Offer  string // what the program offered by ALPN: the server chose among that
	Conn   net.Conn
	Dialed netip.AddrPort
	until  time.Time
}

// A Pool has those of one session. They were dialled and verified for the very name
// that they are lent for, by the session that they are lent to.
type Pool struct {
	// Idle reports whether a connection is open, silent and empty.
	Idle func(net.Conn) bool

	mu     sync.Mutex
	list   []Spare // by age
	timer  *time.Timer
	closed bool
}

// Put keeps a connection, or closes it.
func (p *Pool) Put(s Spare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.list) >= most {
		_ = s.Conn.Close()
		return
	}
	s.until = time.Now().Add(keptFor)
	p.list = append(p.list, s)
	if p.timer == nil {
		p.timer = time.AfterFunc(keptFor, p.tidy)
	}
}

// Take gives the youngest connection that will do and is open, silent and empty.
func (p *Pool) Take(to authority.Authority, offer string) (Spare, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range slices.Backward(p.list) {
		if s.To != to || s.Offer != offer {
			continue
		}
		p.list = slices.Delete(p.list, i, i+1)
		if time.Now().Before(s.until) && p.Idle(s.Conn) {
			return s, true
		}
		_ = s.Conn.Close()
	}
	return Spare{}, false
}

// tidy closes those whose time is over.
func (p *Pool) tidy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.list = slices.DeleteFunc(p.list, func(s Spare) bool {
		old := !now.Before(s.until)
		if old {
			_ = s.Conn.Close()
		}
		return old
	})
	p.timer = nil
	if len(p.list) > 0 {
		p.timer = time.AfterFunc(p.list[0].until.Sub(now), p.tidy)
	}
}

// Clear closes all; with end there will be none again.
func (p *Pool) Clear(end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.closed || end
	for _, s := range p.list {
		_ = s.Conn.Close()
	}
	p.list = nil
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}
