package egress

import (
	"errors"
	"io"
	"net"

	"cloister/internal/budget"
)

// A source is a connection with the bytes that were read of it to look at but
// not handed on yet. Reading from it gives those first.
type source struct {
	net.Conn
	buf []byte
	// first is the memory in which buf begins. It is kept between messages: a
	// request that is read costs no allocation, and an idle connection firstRead.
	first []byte
	// What buf has grown by beyond first is of the stream's lease.
	lease *budget.Lease
	grown int64
}

// firstRead is enough for nearly every first flight: a ClientHello with a
// post-quantum share is 1.7 KiB, an HTTP head less.
const firstRead = 4 << 10

var errTooLong = errors.New("too many bytes to look at")

// fill reads once more, up to most bytes held.
func (s *source) fill(most int) error {
	if len(s.buf) >= most {
		return errTooLong
	}
	if len(s.buf) == 0 && s.first == nil {
		s.first = make([]byte, 0, firstRead)
	}
	switch {
	case len(s.buf) == 0:
		s.shrunk()
		s.buf = s.first
	case cap(s.buf)-len(s.buf) < firstRead/4:
		size := max(firstRead, 2*cap(s.buf))
		if more := int64(size-firstRead) - s.grown; more > 0 {
			if err := s.lease.Take(more); err != nil {
				return err
			}
			s.grown += more
		}
		grown := make([]byte, len(s.buf), size)
		copy(grown, s.buf)
		s.buf = grown
	}
	n, err := s.Conn.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// take hands the first n held bytes over; they are valid until the next fill.
func (s *source) take(n int) []byte {
	out := s.buf[:n:n]
	s.buf = s.buf[n:]
	return out
}

// drop gives a buffer that grew back once nothing is held.
func (s *source) drop() {
	if len(s.buf) == 0 {
		s.shrunk()
		s.buf = nil
	}
}

// shrunk gives back what a buffer had grown by that is gone.
func (s *source) shrunk() {
	s.lease.Give(s.grown)
	s.grown = 0
}

// forget is drop for a connection that is not read in messages: a tunnel costs no
// more than its descriptors and goroutines.
func (s *source) forget() {
	if s.drop(); s.buf == nil {
		s.first = nil
	}
}

func (s *source) Read(p []byte) (int, error) {
	if len(s.buf) > 0 {
		n := copy(p, s.buf)
		s.buf = s.buf[n:]
		s.forget()
		return n, nil
	}
	return s.Conn.Read(p)
}

// NetConn is what lies below, as in crypto/tls.
func (s *source) NetConn() net.Conn { return s.Conn }

// closeWrite ends our direction and leaves the other open.
func closeWrite(c net.Conn) error {
	if s, ok := c.(*source); ok {
		c = s.Conn
	}
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// bare is the kernel's connection below TLS and below what was looked at.
func bare(c net.Conn) net.Conn {
	for {
		switch outer := c.(type) {
		case interface{ NetConn() net.Conn }:
			c = outer.NetConn()
		default:
			return c
		}
	}
}

// reset closes with RST, which says at once that nothing was served.
func reset(c net.Conn) {
	c = bare(c)
	if l, ok := c.(interface{ SetLinger(int) error }); ok {
		_ = l.SetLinger(0) // then it is a plain close, and as closed
	}
	_ = c.Close()
}
