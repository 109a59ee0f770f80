// Package peek is a connection whose first bytes are looked at before they are handed on.
//
// Promise: what was looked at is read again from the connection, in order and once, and
// what it takes to hold counts for a session's memory from the first byte beyond First.
//
// It parses nothing, and sets no deadline.
//
// Most readers want [New], then [Source.Fill] and [Source.Take].
package peek

import (
	"errors"
	"io"
	"net"

	"cloister/internal/budget"
)

// A Source is a connection with the bytes that were read of it to look at but
// not handed on yet. Reading from it gives those first.
type Source struct {
	net.Conn
	buf []byte
	// first is the memory in which buf begins. It is kept between messages: a
	// request that is read costs no allocation, and an idle connection First.
	first []byte
	// What buf has grown by beyond first is of the stream's lease.
	lease *budget.Lease
	grown int64
}

// New is c with nothing held yet.
func New(c net.Conn, lease *budget.Lease) *Source { return &Source{Conn: c, lease: lease} }

// Held are the bytes that were read and not handed on.
func (s *Source) Held() []byte { return s.buf }

// First is enough for nearly every first flight: a ClientHello with a
// post-quantum share is 1.7 KiB, an HTTP head less.
const First = 4 << 10

// ErrTooLong says that more was to be held than may be.
var ErrTooLong = errors.New("too many bytes to look at")

// Fill reads once more, up to most bytes held.
func (s *Source) Fill(most int) error {
	if len(s.buf) >= most {
		return ErrTooLong
	}
	if len(s.buf) == 0 && s.first == nil {
		s.first = make([]byte, 0, First)
	}
	switch {
	case len(s.buf) == 0:
		s.Shrink()
		s.buf = s.first
	case cap(s.buf)-len(s.buf) < First/4:
		size := max(First, 2*cap(s.buf))
		if more := int64(size-First) - s.grown; more > 0 {
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

// Take hands the first n held bytes over; they are valid until the next Fill.
func (s *Source) Take(n int) []byte {
	out := s.buf[:n:n]
	s.buf = s.buf[n:]
	return out
}

// Drop gives a buffer that grew back once nothing is held.
func (s *Source) Drop() {
	if len(s.buf) == 0 {
		s.Shrink()
		s.buf = nil
	}
}

// Shrink gives back what a buffer had grown by that is gone.
func (s *Source) Shrink() {
	s.lease.Give(s.grown)
	s.grown = 0
}

// Forget is Drop for a connection that is not read in messages: a tunnel costs no
// more than its descriptors and goroutines.
func (s *Source) Forget() {
	if s.Drop(); s.buf == nil {
		s.first = nil
	}
}

// Read gives what is held first.
func (s *Source) Read(p []byte) (int, error) {
	if len(s.buf) > 0 {
		n := copy(p, s.buf)
		s.buf = s.buf[n:]
		s.Forget()
		return n, nil
	}
	return s.Conn.Read(p)
}

// NetConn is what lies below, as in crypto/tls.
func (s *Source) NetConn() net.Conn { return s.Conn }

// CloseWrite ends our direction and leaves the other open.
func CloseWrite(c net.Conn) error {
	if s, ok := c.(*Source); ok {
		c = s.Conn
	}
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}
