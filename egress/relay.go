package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"cloister/egress/internal/body"
	"cloister/egress/internal/buffer"
	"cloister/egress/internal/dial"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/tunnel"
	"cloister/egress/internal/verdict"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
)

// maxInterim bounds 1xx responses before the final one.
const maxInterim = 32

// transmit sends the request, of whose body the rest may go up until stop, and reads the
// answer up to the head of the final response.
func (x *exchange) transmit() error {
	x.s.whole, x.s.bound = false, x.s.bound || bindsConnection(x.req.Header)
	u := &upload{x: x}
	first, whole, err := u.first()
	if err != nil {
		return err
	}
	_, err = x.s.up.Conn.Write(first)
	if err != nil {
		// As for the body: what the server said before it closed comes first.
		x.s.e.log.Debug("request head", "error", err)
	}
	x.sent = u
	if u.done = make(chan struct{}); whole {
		u.complete = err == nil
		x.s.e.lates.add(u)
	} else {
		go u.run()
	}
	return x.response()
}

// An upload sends one request's body, then watches the program until the
// response is through.
type upload struct {
	x         *exchange
	done      chan struct{}
	n         int64
	complete  bool
	clientErr error // the program's side went wrong

	// Of one that is sent, and not watched yet: its place in lates.
	listed     bool
	tick       uint64
	next, prev *upload

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
	if err := x.s.e.quota.Head(x.use, int64(len(b))); err != nil {
		return nil, false, err
	}
	switch held := x.s.client.Held(); {
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
	return append(b, x.s.client.Take(n)...), true, nil
}

func (u *upload) watchLate() {
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
		sock.Reset(u.x.s.up.Conn) // so that half a request never looks like a whole
	}
}

// stop ends the upload after the response, and waits for it.
func (u *upload) stop() {
	if u.x.s.e.lates.remove(u) {
		return // nothing began, and no deadline was set
	}
	u.mu.Lock()
	u.stopped = true
	past := time.Unix(1, 0)
	_ = u.x.s.client.SetReadDeadline(past) // fails on closed connections only
	_ = u.x.s.up.SetWriteDeadline(past)
	u.mu.Unlock()
	<-u.done
	u.x.s.readBy(0)
	_ = u.x.s.up.SetDeadline(time.Time{})
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
		u.x.s.readBy(d)
	}
}

// watch notices that the program has gone while the server thinks. An end of
// its sending alone is no hurry for the server, but a limit.
func (u *upload) watch() {
	u.readBy(0)
	for {
		err := u.x.s.client.Fill(wire.MaxHead)
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
			sock.Reset(u.x.s.up.Conn)
			return
		}
	}
}

func (u *upload) body() error {
	before := func() { u.readBy(u.x.s.e.limits.Idle) }
	if u.x.out != nil {
		u.x.in.Before(before)
		return u.copyEdited()
	}
	in := &body.Reader{Src: u.x.s.client, Before: before}
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
func (u *upload) spend(n int) error { return u.x.s.e.quota.Spend(u.x.use, int64(n)) }

// copyEdited sends what stands in the place of the program's body.
func (u *upload) copyEdited() error {
	buf := u.x.s.e.buffers.Get()
	defer u.x.s.e.buffers.Put(buf)
	p := &body.Passage{To: u.x.s.up.Conn, Buffers: &u.x.s.e.buffers, Chunked: u.x.outLength < 0, Left: u.x.outLength,
		Spend: u.spend}
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
	buf := u.x.s.e.buffers.Get()
	defer u.x.s.e.buffers.Put(buf)
	for left := u.x.req.Length; left > 0; {
		n, err := in.Read(buf[:min(left, buffer.Size)])
		if n > 0 {
			left -= int64(n)
			u.n += int64(n)
			if err := u.spend(n); err != nil {
				return err
			}
			if _, err := u.x.s.up.Conn.Write(buf[:n]); err != nil {
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
	c := body.Chunks{In: in, Buffers: &u.x.s.e.buffers}
	err := c.Copy(func(data []byte) error {
		u.n += int64(len(data))
		if u.x.most > 0 && u.n > u.x.most {
			return u.x.over
		}
		if err := u.spend(len(data)); err != nil {
			return err
		}
		return body.WriteChunk(u.x.s.up.Conn, &u.x.s.e.buffers, data)
	})
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		return form
	}
	if err != nil {
		return err
	}
	if len(u.x.verdict.Edits) > 0 { // an edit that leaves the body alone has not seen what is behind it
		c.Trailers = nil
	}
	end := body.AppendTrailers(c.Trailers)
	if err := u.spend(len(end) - len("0\r\n\r\n")); err != nil {
		return err
	}
	if _, err := u.x.s.up.Conn.Write(end); err != nil {
		return errors.Join(sock.ErrWrite, err)
	}
	return nil
}

// response passes interim responses on, up to the final one.
func (x *exchange) response() error {
	for range maxInterim {
		r, err := x.readResponse()
		if err != nil {
			return err
		}
		if r.Status >= 200 {
			x.resp, x.status = r, r.Status
			return nil
		}
		if r.Status == 101 && x.upgrade != "" {
			x.resp = r
			return x.checkUpgraded(r)
		}
		if r.Status == 101 {
			return fmt.Errorf("%w: 101 without having been asked", errUpstream)
		}
		if x.req.Minor == 0 || x.out != nil || x.continued && r.Status == http.StatusContinue {
			continue
		}
		if len(x.verdict.Edits) > 0 { // what nobody has edited is not passed on
			if r.Header = nil; r.Status != 100 {
				continue
			}
		}
		x.putHead(r, nil)
		if err := x.flush(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: too many interim responses", errUpstream)
}

func (x *exchange) readResponse() (*wire.Response, error) {
	head, err := readHead(x.s.up, nil)
	if err != nil {
		return nil, x.upstreamErr(err)
	}
	x.heard = true
	r, err := wire.ParseResponse(head, x.req.Method)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUpstream, err)
	}
	return r, nil
}

// upstreamErr words a failure to read the server; io.EOF stays to be found.
func (x *exchange) upstreamErr(err error) error {
	var syntax *wire.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: %w", errUpstream, err)
	case errors.Is(err, io.EOF) && len(x.s.up.Held()) == 0:
		return fmt.Errorf("%w: it closed the connection: %w", errUpstream, io.EOF)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ended in the middle", errUpstream)
	case dial.AlertOf(err) != "": // of TLS 1.3, once the handshake is over
		return &serverAlert{word: dial.AlertOf(err)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: it was silent for too long after the program had ended", errUpstream)
	}
	return fmt.Errorf("%w: the connection broke", errUpstream)
}

// final passes the final response with its body, edited where that is not nil.
func (x *exchange) final(edited *answer) error {
	r := x.resp
	keepUp := r.Minor == 1 && !wantsClose(r.Header) && r.Body != wire.UntilClose
	x.keep = x.req.Minor == 1 && !wantsClose(x.req.Header) && r.Body != wire.UntilClose
	var own wire.Header
	if edited != nil {
		own = edited.frame(r)
		x.keep = x.keep && (edited.length >= 0 || x.req.Minor == 1)
	} else if r.Body == wire.Chunked && x.req.Minor == 1 {
		own = append(own, wire.Field{Name: "Transfer-Encoding", Value: "chunked"})
	}
	if !x.keep {
		own = append(own, wire.Field{Name: "Connection", Value: "close"})
	}
	x.putHead(r, own)
	if edited != nil {
		err := x.flush()
		if err == nil {
			err = edited.pass()
		}
		if err != nil {
			return err
		}
		keepUp = keepUp && edited.from.Ended
	} else {
		err := x.body(r)
		if ferr := x.flush(); err == nil {
			err = ferr
		}
		if err != nil {
			return err
		}
	}
	if !keepUp {
		// The upload still holds the connection; the next request dials anew.
		x.s.upTarget = authority.Authority{}
	}
	return nil
}

// putHead holds the head for the program until flush.
func (x *exchange) putHead(r *wire.Response, own wire.Header) {
	if x.held == nil {
		x.held = x.s.scratch[:0] // the request's head is out of it
	}
	hop, bare := r.Header.Hop(), r.Status < 200 || r.Status == 204
	b := append(x.held, "HTTP/1.1 "...)
	b = append(append(strconv.AppendInt(b, int64(r.Status), 10), ' '), http.StatusText(r.Status)...) // no server's phrase
	b = append(b, "\r\n"...)
	for _, f := range x.s.e.clean(r.Header) {
		switch {
		case hop.Has(f.Name), wire.Is(f.Name, "transfer-encoding"), bare && wire.Is(f.Name, "content-length"):
		default:
			b = f.Append(b)
		}
	}
	b = own.Append(b)
	x.answered = x.answered || r.Status >= 200
	x.held = append(b, "\r\n"...)
}

// mostHeld is what one TLS record takes.
const mostHeld = 16 << 10

// put writes to the program. What is short waits for more until flush, so that an
// answer which is here already goes down in one system call and one TLS record.
// Who is about to wait for the server flushes first.
func (x *exchange) put(b []byte) error {
	if len(x.held)+len(b) > mostHeld {
		if err := x.flush(); err != nil {
			return err
		}
	}
	if len(b) > mostHeld {
		_, err := x.s.client.Conn.Write(b)
		return err
	}
	x.held = append(x.held, b...)
	return nil
}

func (x *exchange) flush() error {
	b := x.held
	if x.held = x.held[:0]; len(b) == 0 {
		return nil
	}
	_, err := x.s.client.Conn.Write(b)
	return err
}

// body passes a response's body as it comes: nothing waits for more.
func (x *exchange) body(r *wire.Response) error {
	switch r.Body {
	case wire.Length:
		return x.bodyLength(r.Length)
	case wire.UntilClose:
		return x.bodyLength(1<<63 - 1)
	case wire.Chunked:
		return x.bodyChunked()
	case wire.NoBody:
	}
	return nil
}

// bodyLength passes n bytes, or for the largest n all there are. Between two
// kernel connections what is not in memory yet is spliced.
func (x *exchange) bodyLength(n int64) error {
	held := x.s.up.Take(int(min(int64(len(x.s.up.Held())), n)))
	err := x.put(held)
	if err == nil {
		err = x.flush()
	}
	if err != nil {
		return err
	}
	x.down += int64(len(held))
	x.s.up.Drop()
	if n -= int64(len(held)); n == 0 {
		return nil
	}
	rest := &io.LimitedReader{R: x.s.up.Conn, N: n}
	for {
		got, err := x.copy(rest)
		x.down += got
		switch {
		case got > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			x.extend()
		case err != nil:
			return err
		case rest.N > 0 && n < 1<<62:
			return fmt.Errorf("%w: it ended in the middle of the body", errUpstream)
		default:
			return nil
		}
	}
}

// copy lets the kernel copy where it can.
func (x *exchange) copy(from *io.LimitedReader) (int64, error) {
	if tunnel.CanSplice(x.s.client.Conn, x.s.up.Conn) {
		return io.Copy(x.s.client.Conn, from)
	}
	buf := x.s.e.buffers.Get()
	defer x.s.e.buffers.Put(buf)
	if from.N > buffer.Size {
		if b := sock.NewBatch(x.s.up.Conn, x.s.client.Conn, &x.s.e.batches); b != nil {
			return b.Copy(x.s.client.Conn, from, buf[:])
		}
	}
	return io.CopyBuffer(x.s.client.Conn, from, buf[:])
}

// extend bounds the server's silence once the program has ended its sending:
// it may have gone for good.
func (x *exchange) extend() {
	if x.ended.Load() {
		_ = x.s.up.SetReadDeadline(time.Now().Add(x.s.e.limits.HalfClosed)) // fails on a closed connection only
	}
}

func (x *exchange) bodyChunked() error {
	var failed error // of what was held
	before := func() {
		if err := x.flush(); failed == nil {
			failed = err
		}
		x.extend()
	}
	c := body.Chunks{In: &body.Reader{Src: x.s.up, Before: before}, Buffers: &x.s.e.buffers}
	err := c.Copy(func(data []byte) error {
		x.down += int64(len(data))
		switch {
		case failed != nil:
			return failed
		case x.req.Minor == 0:
			return x.put(data)
		}
		return x.putChunk(data)
	})
	switch {
	case failed != nil:
		return failed
	case errors.Is(err, sock.ErrWrite):
		return err
	case err != nil:
		return x.upstreamErr(err)
	case x.req.Minor == 0:
		return nil
	}
	return x.put(body.AppendTrailers(x.trailers(c.Trailers)))
}

// putChunk is put of one chunk.
func (x *exchange) putChunk(data []byte) error {
	if len(x.held)+len(data) > mostHeld-32 {
		if err := x.flush(); err != nil {
			return err
		}
	}
	if len(data) > mostHeld-32 {
		return body.WriteChunk(x.s.client.Conn, &x.s.e.buffers, data)
	}
	x.held = body.AppendChunk(x.held, data)
	return nil
}
