package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"cloister/egress/internal/body"
	"cloister/egress/internal/buffer"
	"cloister/egress/internal/dial"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/tunnel"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
)

// maxInterim bounds 1xx responses before the final one.
const maxInterim = 32

// A download is the server's answer to an exchange, on its way to the program.
type download struct {
	x     *exchange
	held  []byte // what was not written yet
	heard bool   // the server has begun to answer
}

// response passes interim responses on, up to the final one.
func (d *download) response() error {
	for range maxInterim {
		r, err := d.read()
		if err != nil {
			return err
		}
		if r.Status >= 200 {
			d.x.resp, d.x.status = r, r.Status
			return nil
		}
		if r.Status == 101 && d.x.upgrade != "" {
			d.x.resp = r
			return webSocket{d.x}.answered(r)
		}
		if r.Status == 101 {
			return fmt.Errorf("%w: 101 without having been asked", errUpstream)
		}
		if d.x.req.Minor == 0 || d.x.out != nil || d.x.continued && r.Status == http.StatusContinue {
			continue
		}
		if len(d.x.verdict.Edits) > 0 { // what nobody has edited is not passed on
			if r.Header = nil; r.Status != 100 {
				continue
			}
		}
		d.putHead(r, nil)
		if err := d.flush(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: too many interim responses", errUpstream)
}

func (d *download) read() (*wire.Response, error) {
	head, err := readHead(d.x.s.up.Source, nil)
	if err != nil {
		return nil, d.upstreamErr(err)
	}
	d.heard = true
	r, err := wire.ParseResponse(head, d.x.req.Method)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUpstream, err)
	}
	return r, nil
}

// upstreamErr words a failure to read the server; io.EOF stays to be found.
func (d *download) upstreamErr(err error) error {
	var syntax *wire.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: %w", errUpstream, err)
	case errors.Is(err, io.EOF) && len(d.x.s.up.Held()) == 0:
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
func (d *download) final(edited *answer) error {
	r := d.x.resp
	keepUp := r.Minor == 1 && !wantsClose(r.Header) && r.Body != wire.UntilClose
	d.x.keep = d.x.req.Minor == 1 && !wantsClose(d.x.req.Header) && r.Body != wire.UntilClose
	var own wire.Header
	if edited != nil {
		own = edited.frame(r)
		d.x.keep = d.x.keep && (edited.length >= 0 || d.x.req.Minor == 1)
	} else if r.Body == wire.Chunked && d.x.req.Minor == 1 {
		own = append(own, wire.Field{Name: "Transfer-Encoding", Value: "chunked"})
	}
	if !d.x.keep {
		own = append(own, wire.Field{Name: "Connection", Value: "close"})
	}
	d.putHead(r, own)
	if edited != nil {
		err := d.flush()
		if err == nil {
			err = edited.pass()
		}
		if err != nil {
			return err
		}
		keepUp = keepUp && edited.from.Ended
	} else {
		err := d.pass(r)
		if ferr := d.flush(); err == nil {
			err = ferr
		}
		if err != nil {
			return err
		}
	}
	if !keepUp {
		// The upload still holds the connection; the next request dials anew.
		d.x.s.up.to = authority.Authority{}
	}
	return nil
}

// putHead holds the head for the program until flush.
func (d *download) putHead(r *wire.Response, own wire.Header) {
	if d.held == nil {
		d.held = d.x.s.scratch[:0] // the request's head is out of it
	}
	hop, bare := r.Header.Hop(), r.Status < 200 || r.Status == 204
	b := append(d.held, "HTTP/1.1 "...)
	b = append(append(strconv.AppendInt(b, int64(r.Status), 10), ' '), http.StatusText(r.Status)...) // no server's phrase
	b = append(b, "\r\n"...)
	for _, f := range d.x.s.e.clean(r.Header) {
		switch {
		case hop.Has(f.Name), wire.Is(f.Name, "transfer-encoding"), bare && wire.Is(f.Name, "content-length"):
		default:
			b = f.Append(b)
		}
	}
	b = own.Append(b)
	d.x.answered = d.x.answered || r.Status >= 200
	d.held = append(b, "\r\n"...)
}

// mostHeld is what one TLS record takes.
const mostHeld = 16 << 10

// put writes to the program. What is short waits for more until flush, so that an
// answer which is here already goes down in one system call and one TLS record.
// Who is about to wait for the server flushes first.
func (d *download) put(b []byte) error {
	if len(d.held)+len(b) > mostHeld {
		if err := d.flush(); err != nil {
			return err
		}
	}
	if len(b) > mostHeld {
		_, err := d.x.s.client.Conn.Write(b)
		return err
	}
	d.held = append(d.held, b...)
	return nil
}

func (d *download) flush() error {
	b := d.held
	if d.held = d.held[:0]; len(b) == 0 {
		return nil
	}
	_, err := d.x.s.client.Conn.Write(b)
	return err
}

// pass passes a response's body as it comes: nothing waits for more.
func (d *download) pass(r *wire.Response) error {
	switch r.Body {
	case wire.Length:
		return d.counted(r.Length)
	case wire.UntilClose:
		return d.counted(1<<63 - 1)
	case wire.Chunked:
		return d.chunked()
	case wire.NoBody:
	}
	return nil
}

// counted passes n bytes, or for the largest n all there are. Between two
// kernel connections what is not in memory yet is spliced.
func (d *download) counted(n int64) error {
	held := d.x.s.up.Take(int(min(int64(len(d.x.s.up.Held())), n)))
	err := d.put(held)
	if err == nil {
		err = d.flush()
	}
	if err != nil {
		return err
	}
	d.x.down += int64(len(held))
	d.x.s.up.Drop()
	if n -= int64(len(held)); n == 0 {
		return nil
	}
	rest := &io.LimitedReader{R: d.x.s.up.Conn, N: n}
	for {
		got, err := d.copy(rest)
		d.x.down += got
		switch {
		case got > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			d.x.extend()
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
func (d *download) copy(from *io.LimitedReader) (int64, error) {
	if tunnel.CanSplice(d.x.s.client.Conn, d.x.s.up.Conn) {
		return io.Copy(d.x.s.client.Conn, from)
	}
	buf := d.x.s.e.buffers.Get()
	defer d.x.s.e.buffers.Put(buf)
	if from.N > buffer.Size {
		if b := sock.NewBatch(d.x.s.up.Conn, d.x.s.client.Conn, &d.x.s.e.batches); b != nil {
			return b.Copy(d.x.s.client.Conn, from, buf[:])
		}
	}
	return io.CopyBuffer(d.x.s.client.Conn, from, buf[:])
}

func (d *download) chunked() error {
	var failed error // of what was held
	before := func() {
		if err := d.flush(); failed == nil {
			failed = err
		}
		d.x.extend()
	}
	c := body.Chunks{In: &body.Reader{Src: d.x.s.up.Source, Before: before}, Buffers: &d.x.s.e.buffers}
	err := c.Copy(func(data []byte) error {
		d.x.down += int64(len(data))
		switch {
		case failed != nil:
			return failed
		case d.x.req.Minor == 0:
			return d.put(data)
		}
		return d.putChunk(data)
	})
	switch {
	case failed != nil:
		return failed
	case errors.Is(err, sock.ErrWrite):
		return err
	case err != nil:
		return d.upstreamErr(err)
	case d.x.req.Minor == 0:
		return nil
	}
	return d.put(body.AppendTrailers(d.x.trailers(c.Trailers)))
}

// putChunk is put of one chunk.
func (d *download) putChunk(data []byte) error {
	if len(d.held)+len(data) > mostHeld-32 {
		if err := d.flush(); err != nil {
			return err
		}
	}
	if len(data) > mostHeld-32 {
		return body.WriteChunk(d.x.s.client.Conn, &d.x.s.e.buffers, data)
	}
	d.held = body.AppendChunk(d.held, data)
	return nil
}
