package egress

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
)

const (
	// sparesFor is how long a connection to a server is kept for the program's next
	// one: agents and package managers open one for each request. Many servers
	// close an idle one after 5 s and more.
	sparesFor = 5 * time.Second
	// mostSpares bounds them in a session.
	mostSpares = 32
)

// A spare is a connection to a server, at the end of a message, whose program has
// gone.
type spare struct {
	to     authority.Authority
	offer  string // what the program offered by ALPN: the server chose among that
	up     *source
	dialed netip.AddrPort
	until  time.Time
}

// spares are those of one session. They were dialled and verified for the very name
// that they are lent for, by the session that they are lent to.
type spares struct {
	mu     sync.Mutex
	list   []spare // by age
	timer  *time.Timer
	closed bool
}

// put keeps a connection, or closes it.
func (p *spares) put(s spare) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.list) >= mostSpares {
		_ = s.up.Close()
		return
	}
	s.until = time.Now().Add(sparesFor)
	p.list = append(p.list, s)
	if p.timer == nil {
		p.timer = time.AfterFunc(sparesFor, p.tidy)
	}
}

// take gives the youngest connection that will do and is open, silent and empty.
func (p *spares) take(to authority.Authority, offer string) (spare, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.list) - 1; i >= 0; i-- {
		s := p.list[i]
		if s.to != to || s.offer != offer {
			continue
		}
		p.list = slices.Delete(p.list, i, i+1)
		if time.Now().Before(s.until) && sock.StillIdle(bare(s.up)) {
			return s, true
		}
		_ = s.up.Close()
	}
	return spare{}, false
}

// tidy closes those whose time is over.
func (p *spares) tidy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.list = slices.DeleteFunc(p.list, func(s spare) bool {
		old := !now.Before(s.until)
		if old {
			_ = s.up.Close()
		}
		return old
	})
	p.timer = nil
	if len(p.list) > 0 {
		p.timer = time.AfterFunc(p.list[0].until.Sub(now), p.tidy)
	}
}

// clear closes all; with end there will be none again.
func (p *spares) clear(end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.closed || end
	for _, s := range p.list {
		_ = s.up.Close()
	}
	p.list = nil
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// borrow takes a spare for the stream's target.
func (s *stream) borrow() bool {
	s.offered = strings.Join(s.offer, ",")
	got, ok := s.e.spares.take(s.target, s.offered)
	if !ok || s.attach(bare(got.up)) != nil {
		return false
	}
	s.up, s.upTarget, s.dialed, s.answered, s.lent, s.whole = got.up, got.to, got.dialed, true, true, true
	return true
}

// lend gives the connection to the server to the program's next one, where it is at
// the end of a message.
func (s *stream) lend() {
	if !s.secure || s.up == nil || s.upTarget != s.target || !s.whole || s.bound || len(s.up.buf) > 0 || s.killed() != nil {
		return
	}
	s.detach(bare(s.up.Conn))
	s.up.forget()
	s.e.spares.put(spare{to: s.target, offer: s.offered, up: s.up, dialed: s.dialed})
	s.up = nil
}

// repeatable says whether a request may be sent again where a connection that was
// lent ends without a word: it has no body, and asks for nothing but an answer
// (RFC 9110 9.2.2).
func (x *exchange) repeatable() bool {
	switch x.req.Method {
	case "GET", "HEAD", "OPTIONS":
		return x.req.Body == wire.NoBody && x.out == nil && x.upgrade == ""
	}
	return false
}

// bindsConnection says whether a request logs its connection in, and not itself.
func bindsConnection(h wire.Header) bool {
	v, _ := h.Get("Authorization")
	scheme, _, _ := strings.Cut(strings.ToLower(v), " ")
	return scheme == "ntlm" || scheme == "negotiate"
}
