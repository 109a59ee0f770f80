package serve

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"cloister/serve/relay"
)

// Dial connects to a TCP port of the sandbox's loopback, through a program inside: a
// second process cannot enter a network that another one owns.
func (s *Sandbox) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if err := s.opened(ctx, port); err != nil {
		return nil, err
	}
	p, err := s.helper(ctx, "dial", strconv.Itoa(int(port)))
	if err != nil {
		return nil, err
	}
	c, err := relay.Conn(ctx, p.In, p.Out, p.Close)
	if err != nil {
		return nil, fmt.Errorf("dial port %d of the sandbox: %w", port, err)
	}
	return c, nil
}

// portAgain is how long a port's record stands for further requests.
const portAgain = time.Minute

// opened records that requests reach a port, once a minute.
func (s *Sandbox) opened(ctx context.Context, port uint16) error {
	s.mu.Lock()
	known := time.Since(s.ports[port]) < portAgain
	s.mu.Unlock()
	if known {
		return nil
	}
	if err := s.recorded(ctx, ActPort, "dial", strconv.Itoa(int(port))); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ports == nil {
		s.ports = map[uint16]time.Time{}
	}
	s.ports[port] = time.Now()
	return nil
}
