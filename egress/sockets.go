package egress

import (
	"net"
	"slices"

	"cloister/egress/internal/sock"
)

// attach makes a connection part of the stream's fate.
func (s *stream) attach(c net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		sock.Reset(c)
		return s.cause
	}
	s.conns = append(s.conns, c)
	return nil
}

// detach is the end of a connection's part.
func (s *stream) detach(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.conns, c); i >= 0 {
		s.conns = slices.Delete(s.conns, i, i+1)
	}
}

// A tracked connection is one of several of a stream: its part ends when it is
// closed, by whoever closes it.
type tracked struct {
	*net.TCPConn
	s *stream
}

func (t tracked) Close() error {
	t.s.detach(t.TCPConn)
	return t.TCPConn.Close()
}

// kill resets everything, from another goroutine.
func (s *stream) kill(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = cause
	}
	for _, c := range s.conns {
		sock.Reset(c)
	}
}

func (s *stream) killed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *stream) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close() // closed twice is the rule here
	}
	s.conns = nil
}
