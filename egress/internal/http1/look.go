package http1

import (
	"crypto/sha256"
	"errors"
	"net"
	"os"

	"cloister/egress/internal/body"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/request"
	"cloister/internal/reading"
)

// look reads the beginning of the body without taking it: what is read stays with the
// program's connection, in the budget of the session, until it is sent on.
func (x *exchange) look() (reading.Beginning, error) {
	if x.looked == nil {
		x.looked = &request.Looked{}
		x.looked.Beginning, x.looked.Err = x.lookAhead()
	}
	return x.looked.Beginning, x.looked.Err
}

func (x *exchange) lookAhead() (reading.Beginning, error) {
	if x.in != nil && x.in.Touched() {
		return reading.Beginning{}, request.ErrRead
	}
	if x.waits() {
		if err := x.goOn(); err != nil {
			return reading.Beginning{}, errors.New("the program has gone")
		}
	}
	const besides = 2 * peek.First // for what is read of a copy
	if err := x.Stream.Lease.Take(besides); err != nil {
		return reading.Beginning{}, request.Unseen(err)
	}
	defer x.Stream.Lease.Give(besides)
	x.Stream.Client.ReadBy(request.LookWithin)
	defer x.Stream.Client.ReadBy(0)
	from := peek.New(&peeked{Conn: x.Stream.Client.Conn, of: x.Stream.Client.Source}, x.Stream.Lease)
	defer from.Shrink()
	in := body.New(from, &x.Stream.Session.Buffers, x.req.Body, x.req.Length, nil)
	buf := make([]byte, peek.First)
	b := reading.Beginning{Declared: in.Length()}
	sum := sha256.New()
	for {
		n, err := in.Read(buf[:min(peek.First, request.MostLooked+1-b.Size)])
		more := b.Size+int64(n) > request.MostLooked
		n = min(n, int(request.MostLooked-b.Size))
		sum.Write(buf[:n])
		b.Size += int64(n)
		b.Whole = !more && in.Whole()
		b.Late = !b.Whole && errors.Is(err, os.ErrDeadlineExceeded)
		if b.Whole || b.Late || more || errors.Is(err, peek.ErrTooLong) {
			break
		}
		if err != nil {
			return reading.Beginning{}, request.Unseen(err)
		}
	}
	sum.Sum(b.Sum[:0])
	for _, f := range in.Trailers() {
		b.Trailer = append(b.Trailer, [2]string{f.Name, f.Value})
	}
	return b, nil
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
		if err := p.of.Fill(request.MostLooked + peek.First); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.of.Held()[p.at:])
	p.at += n
	return n, nil
}
