package stream

import (
	"net"
	"slices"
	"sync"

	"cloister/egress/internal/sock"
)

// Sockets are the kernel's connections of one stream, which end together.
type Sockets struct {
	mu    sync.Mutex
	open  []net.Conn
	cause error // why they were killed
}

// Attach makes a connection part of the stream's fate.
func (s *Sockets) Attach(c net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		sock.Reset(c)
		return s.cause
	}
	s.open = append(s.open, c)
	return nil
}

// detach is the end of a connection's part.
func (s *Sockets) detach(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.open, c); i >= 0 {
		s.open = slices.Delete(s.open, i, i+1)
	}
}

// Kill resets everything, from another goroutine.
func (s *Sockets) Kill(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = cause
	}
	for _, c := range s.open {
		sock.Reset(c)
	}
}

func (s *Sockets) Killed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *Sockets) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close() // closed twice is the rule here
	}
	s.open = nil
}

// A Tracked connection is one of several of a stream: its part ends when it is
// closed, by whoever closes it.
type Tracked struct {
	*net.TCPConn
	of *Sockets
}

// Track is a connection that was attached, whose close ends its part.
func (s *Sockets) Track(c *net.TCPConn) Tracked { return Tracked{c, s} }

func (t Tracked) Close() error {
	t.of.detach(t.TCPConn)
	return t.TCPConn.Close()
}
