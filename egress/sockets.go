package egress

import (
	"net"
	"slices"
	"sync"

	"cloister/egress/internal/sock"
)

// Sockets are the kernel's connections of one stream, which end together.
type sockets struct {
	mu    sync.Mutex
	open  []net.Conn
	cause error // why they were killed
}

// attach makes a connection part of the stream's fate.
func (s *sockets) attach(c net.Conn) error {
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
func (s *sockets) detach(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.open, c); i >= 0 {
		s.open = slices.Delete(s.open, i, i+1)
	}
}

// kill resets everything, from another goroutine.
func (s *sockets) kill(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause = cause
	}
	for _, c := range s.open {
		sock.Reset(c)
	}
}

func (s *sockets) killed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		_ = c.Close() // closed twice is the rule here
	}
	s.open = nil
}

// A tracked connection is one of several of a stream: its part ends when it is
// closed, by whoever closes it.
type tracked struct {
	*net.TCPConn
	of *sockets
}

func (t tracked) Close() error {
	t.of.detach(t.TCPConn)
	return t.TCPConn.Close()
}
