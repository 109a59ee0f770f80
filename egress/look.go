package egress

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"cloister/egress/internal/ahead"
	"cloister/egress/internal/body"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/wire"
	"cloister/internal/reading"
)

// A person who is asked about a request is shown what is known of its body: mostLooked
// bytes of it at most, and what has come within lookWithin. All of it goes up later as it
// came.
const (
	mostLooked = 64 << 10
	lookWithin = 2 * time.Second
)

// errRead says that it is too late to look.
var errRead = errors.New("its body was read before a person was asked")

// looked is what was read, once.
type looked struct {
	reading.Beginning
	err error
}

// look reads the beginning of the body without taking it: what is read stays with the
// program's connection, in the budget of the session, until it is sent on.
func (x *exchange) look() (reading.Beginning, error) {
	if x.looked == nil {
		x.looked = &looked{}
		x.looked.Beginning, x.looked.err = x.lookAhead()
	}
	return x.looked.Beginning, x.looked.err
}

func (x *exchange) lookAhead() (reading.Beginning, error) {
	if x.in != nil && x.in.Touched() {
		return reading.Beginning{}, errRead
	}
	if x.waits() {
		if err := x.goOn(); err != nil {
			return reading.Beginning{}, errors.New("the program has gone")
		}
	}
	const besides = 2 * peek.First // for what is read of a copy
	if err := x.s.lease.Take(besides); err != nil {
		return reading.Beginning{}, unseen(err)
	}
	defer x.s.lease.Give(besides)
	x.s.client.readBy(lookWithin)
	defer x.s.client.readBy(0)
	from := peek.New(&peeked{Conn: x.s.client.Conn, of: x.s.client.Source}, x.s.lease)
	defer from.Shrink()
	in := body.New(from, &x.s.e.buffers, x.req.Body, x.req.Length, nil)
	buf := make([]byte, peek.First)
	b := reading.Beginning{Declared: in.Length()}
	sum := sha256.New()
	for {
		n, err := in.Read(buf[:min(peek.First, mostLooked+1-b.Size)])
		more := b.Size+int64(n) > mostLooked
		n = min(n, int(mostLooked-b.Size))
		sum.Write(buf[:n])
		b.Size += int64(n)
		b.Whole = !more && in.Whole()
		b.Late = !b.Whole && errors.Is(err, os.ErrDeadlineExceeded)
		if b.Whole || b.Late || more || errors.Is(err, peek.ErrTooLong) {
			break
		}
		if err != nil {
			return reading.Beginning{}, unseen(err)
		}
	}
	sum.Sum(b.Sum[:0])
	for _, f := range in.Trailers() {
		b.Trailer = append(b.Trailer, [2]string{f.Name, f.Value})
	}
	return b, nil
}

// unseen is why a body cannot be looked at.
func unseen(err error) error {
	if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
		return fmt.Errorf("its body cannot be read: %w", syntax)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return errors.New("its body cannot be looked at: " + endOf(err))
}

// peeked reads what its source holds and then more of its connection, all of which the
// source goes on to hold.
type peeked struct {
	net.Conn
	of *peek.Source
	at int
}

func (p *peeked) Read(b []byte) (int, error) {
	if p.at == len(p.of.Held()) {
		if err := p.of.Fill(mostLooked + peek.First); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.of.Held()[p.at:])
	p.at += n
	return n, nil
}

// look reads the beginning of a stream's body, and puts it back before the rest.
func (m *message) look() (reading.Beginning, error) {
	if m.seen == nil {
		m.seen = &looked{}
		m.seen.Beginning, m.seen.err = m.lookAhead()
	}
	return m.seen.Beginning, m.seen.err
}

func (m *message) lookAhead() (reading.Beginning, error) {
	if m.sent != nil {
		return reading.Beginning{}, errRead
	}
	m.ahead = ahead.New(m.r.Body, m.s.e.memory, mostLooked)
	m.r.Body = m.ahead
	text, err := m.ahead.Look(m.r.Context(), lookWithin)
	b := reading.Beginning{Size: int64(len(text)), Sum: sha256.Sum256(text), Declared: m.r.ContentLength}
	switch {
	case m.r.Context().Err() != nil:
		return b, errors.New("the program has ended the request")
	case errors.Is(err, ahead.ErrMore):
	case err == nil:
		b.Late = true
	case !errors.Is(err, io.EOF):
		return b, unseen(err)
	default:
		b.Whole = true
		wire.TidyTrailers(m.r.Trailer)
		for _, f := range listed(m.r.Trailer) {
			b.Trailer = append(b.Trailer, [2]string{f.Name, f.Value})
		}
	}
	return b, nil
}
