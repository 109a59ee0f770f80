package http1

import (
	"errors"
	"io"
	"sync"
	"time"

	"cloister/egress/internal/body"
	"cloister/egress/internal/buffer"
	"cloister/egress/internal/late"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
)

// An upload sends one request's body, then watches the program until the
// response is through.
type upload struct {
	x         *exchange
	done      chan struct{}
	n         int64
	complete  bool
	clientErr error // the program's side went wrong

	late late.Entry // of one that is sent, and not watched yet

	mu      sync.Mutex
	stopped bool
}

// mostAtOnce is how long a body is sent with its head: one TLS record holds it, and
// every socket takes it without waiting for the server.
const mostAtOnce = 8 << 10

// first is what goes up before the server's answer is waited for: the head and,
// where it is short and here already, the body. whole says that nothing is left.
func (u *upload) first() (b []byte, whole bool, err error) {
	x := u.x
	b = x.requestHead()
	if err := x.Stream.Session.Quota.Head(x.Use, int64(len(b))); err != nil {
		return nil, false, err
	}
	switch held := x.Stream.Client.Held(); {
	case x.out != nil:
		return b, false, nil
	case x.req.Body == wire.NoBody:
		return b, true, nil
	case x.req.Body != wire.Length || x.req.Length > mostAtOnce || x.req.Length > int64(len(held)):
		return b, false, nil
	}
	n := int(x.req.Length)
	if err := u.spend(n); err != nil {
		return nil, false, err
	}
	u.n = x.req.Length
	return append(b, x.Stream.Client.Take(n)...), true, nil
}

// WatchLate watches the program of a request whose answer takes long.
func (u *upload) WatchLate() {
	defer close(u.done)
	u.watch()
}

func (u *upload) run() {
	defer close(u.done)
	err := u.body()
	switch {
	case err == nil:
		u.complete = u.x.out == nil || u.x.in.Ended
		u.watch()
	case errors.Is(err, sock.ErrWrite):
		// The server reads no more; its answer, which may come early (413),
		// decides.
	case u.isStopped():
	default:
		u.clientErr = err
		sock.Reset(u.x.Stream.Server.Conn) // so that half a request never looks like a whole
	}
}

// stop ends the upload after the response, and waits for it.
func (u *upload) stop() {
	if u.x.Stream.Session.Late.Remove(&u.late) {
		return // nothing began, and no deadline was set
	}
	u.mu.Lock()
	u.stopped = true
	past := time.Unix(1, 0)
	_ = u.x.Stream.Client.SetReadDeadline(past) // fails on closed connections only
	_ = u.x.Stream.Server.SetWriteDeadline(past)
	u.mu.Unlock()
	<-u.done
	u.x.Stream.Client.ReadBy(0)
	_ = u.x.Stream.Server.SetDeadline(time.Time{})
}

func (u *upload) isStopped() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stopped
}

// readBy allows the program d for its next bytes; 0 for ever.
func (u *upload) readBy(d time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.stopped {
		u.x.Stream.Client.ReadBy(d)
	}
}

// watch notices that the program has gone while the server thinks. An end of
// its sending alone is no hurry for the server, but a limit.
func (u *upload) watch() {
	u.readBy(0)
	for {
		err := u.x.Stream.Client.Fill(wire.MaxHead)
		switch {
		case err == nil: // the next request's first bytes
		case u.isStopped(), errors.Is(err, peek.ErrTooLong):
			return
		case errors.Is(err, io.EOF):
			u.x.ended.Store(true)
			u.x.extend()
			return
		default:
			u.clientErr = err
			sock.Reset(u.x.Stream.Server.Conn)
			return
		}
	}
}

func (u *upload) body() error {
	before := func() { u.readBy(u.x.Stream.Session.Limits.Idle) }
	if u.x.out != nil {
		u.x.in.Before(before)
		return u.copyEdited()
	}
	in := &body.Reader{Src: u.x.Stream.Client.Source, Before: before}
	switch u.x.req.Body {
	case wire.Length:
		return u.copyLength(in)
	case wire.Chunked:
		return u.copyChunks(in)
	case wire.NoBody, wire.UntilClose: // only a response ends with its connection
	}
	return nil
}

// spend counts what is about to go up.
func (u *upload) spend(n int) error { return u.x.Stream.Session.Quota.Spend(u.x.Use, int64(n)) }

// copyEdited sends what stands in the place of the program's body.
func (u *upload) copyEdited() error {
	buf := u.x.Stream.Session.Buffers.Get()
	defer u.x.Stream.Session.Buffers.Put(buf)
	p := &body.Passage{To: u.x.Stream.Server.Conn, Buffers: &u.x.Stream.Session.Buffers, Chunked: u.x.outLength < 0,
		Left: u.x.outLength, Spend: u.spend}
	err := p.Copy(u.x.out, buf[:])
	u.n = u.x.in.N.Load()
	if err == nil && p.Chunked {
		err = body.WriteTrailers(p.To, nil) // no edit has seen those of the program
		if err != nil {
			err = errors.Join(sock.ErrWrite, err)
		}
	}
	return err
}

func (u *upload) copyLength(in *body.Reader) error {
	buf := u.x.Stream.Session.Buffers.Get()
	defer u.x.Stream.Session.Buffers.Put(buf)
	for left := u.x.req.Length; left > 0; {
		n, err := in.Read(buf[:min(left, buffer.Size)])
		if n > 0 {
			left -= int64(n)
			u.n += int64(n)
			if err := u.spend(n); err != nil {
				return err
			}
			if _, err := u.x.Stream.Server.Conn.Write(buf[:n]); err != nil {
				return errors.Join(sock.ErrWrite, err)
			}
		}
		if err != nil && left > 0 {
			return err
		}
	}
	return nil
}

func (u *upload) copyChunks(in *body.Reader) error {
	c := body.Chunks{In: in, Buffers: &u.x.Stream.Session.Buffers}
	err := c.Copy(func(data []byte) error {
		u.n += int64(len(data))
		if u.x.Most > 0 && u.n > u.x.Most {
			return u.x.Over
		}
		if err := u.spend(len(data)); err != nil {
			return err
		}
		return body.WriteChunk(u.x.Stream.Server.Conn, &u.x.Stream.Session.Buffers, data)
	})
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		return form
	}
	if err != nil {
		return err
	}
	if len(u.x.Verdict.Edits) > 0 { // an edit that leaves the body alone has not seen what is behind it
		c.Trailers = nil
	}
	end := body.AppendTrailers(c.Trailers)
	if err := u.spend(len(end) - len("0\r\n\r\n")); err != nil {
		return err
	}
	if _, err := u.x.Stream.Server.Conn.Write(end); err != nil {
		return errors.Join(sock.ErrWrite, err)
	}
	return nil
}

// extend bounds the server's silence once the program has ended its sending:
// it may have gone for good.
func (x *exchange) extend() {
	if x.ended.Load() {
		// It fails on a closed connection only.
		_ = x.Stream.Server.SetReadDeadline(time.Now().Add(x.Stream.Session.Limits.HalfClosed))
	}
}

// transmit sends the request, of whose body the rest may go up until stop, and reads the
// answer up to the head of the final response.
func (x *exchange) transmit() error {
	x.Stream.Server.Whole, x.Stream.Server.Bound = false, x.Stream.Server.Bound || bindsConnection(x.req.Header)
	u := &upload{x: x}
	u.late.Of = u
	first, whole, err := u.first()
	if err != nil {
		return err
	}
	_, err = x.Stream.Server.Conn.Write(first)
	if err != nil {
		// As for the body: what the server said before it closed comes first.
		x.Stream.Session.Log.Debug("request head", "error", err)
	}
	x.sent = u
	if u.done = make(chan struct{}); whole {
		u.complete = err == nil
		x.Stream.Session.Late.Add(&u.late)
	} else {
		go u.run()
	}
	return x.reply.response()
}
