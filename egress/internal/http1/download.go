package http1

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
	"cloister/egress/internal/request"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/stream"
	"cloister/egress/internal/tunnel"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
)

// A download is the server's answer to an exchange, on its way to the program.
type download struct {
	x     *exchange
	held  []byte // what was not written yet
	heard bool   // the server has begun to answer
}

// response passes interim responses on, up to the final one.
func (d *download) response() error {
	for range request.MaxInterim {
		r, err := d.read()
		if err != nil {
			return err
		}
		if r.Status >= 200 {
			d.x.resp, d.x.Status = r, r.Status
			return nil
		}
		if r.Status == 101 && d.x.upgrade != "" {
			d.x.resp = r
			return webSocket{d.x}.answered(r)
		}
		if r.Status == 101 {
			return fmt.Errorf("%w: 101 without having been asked", request.ErrServer)
		}
		if d.x.req.Minor == 0 || d.x.out != nil || d.x.continued && r.Status == http.StatusContinue {
			continue
		}
		if len(d.x.Verdict.Edits) > 0 { // what no edit has seen is not passed on
			if r.Header = nil; r.Status != 100 {
				continue
			}
		}
		d.putHead(r, nil)
		if err := d.flush(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: too many interim responses", request.ErrServer)
}

func (d *download) read() (*wire.Response, error) {
	head, err := stream.ReadHead(d.x.Stream.Server.Source, nil)
	if err != nil {
		return nil, d.upstreamErr(err)
	}
	d.heard = true
	r, err := wire.ParseResponse(head, d.x.req.Method)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", request.ErrServer, err)
	}
	return r, nil
}

// upstreamErr words a failure to read the server; io.EOF stays to be found.
func (d *download) upstreamErr(err error) error {
	var syntax *wire.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: %w", request.ErrServer, err)
	case errors.Is(err, io.EOF) && len(d.x.Stream.Server.Held()) == 0:
		return fmt.Errorf("%w: it closed the connection: %w", request.ErrServer, io.EOF)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it ended in the middle", request.ErrServer)
	case dial.AlertOf(err) != "": // of TLS 1.3, once the handshake is over
		return &serverAlert{word: dial.AlertOf(err)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: it was silent for too long after the program had ended", request.ErrServer)
	}
	return fmt.Errorf("%w: the connection broke", request.ErrServer)
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
		d.x.Stream.Server.To = authority.Authority{}
	}
	return nil
}

// putHead holds the head for the program until flush.
func (d *download) putHead(r *wire.Response, own wire.Header) {
	if d.held == nil {
		d.held = d.x.Stream.Scratch[:0] // the request's head is out of it
	}
	hop, bare := r.Header.Hop(), r.Status < 200 || r.Status == 204
	b := append(d.held, "HTTP/1.1 "...)
	b = append(append(strconv.AppendInt(b, int64(r.Status), 10), ' '), http.StatusText(r.Status)...) // no server's phrase
	b = append(b, "\r\n"...)
	for _, f := range clean(d.x.Stream.Session, r.Header) {
		switch {
		case hop.Has(f.Name), wire.Is(f.Name, "transfer-encoding"), bare && wire.Is(f.Name, "content-length"):
		default:
			b = f.Append(b)
		}
	}
	b = own.Append(b)
	d.x.Answered = d.x.Answered || r.Status >= 200
	d.held = append(b, "\r\n"...)
}

// mostHeld is what one TLS record takes.
const mostHeld = 16 << 10

// put writes to the program. What is short waits for more until flush, so that an
// answer which is here already goes down in one system call and one TLS record.
// A caller that is about to wait for the server flushes first.
func (d *download) put(b []byte) error {
	if len(d.held)+len(b) > mostHeld {
		if err := d.flush(); err != nil {
			return err
		}
	}
	if len(b) > mostHeld {
		_, err := d.x.Stream.Client.Conn.Write(b)
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
	_, err := d.x.Stream.Client.Conn.Write(b)
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
	held := d.x.Stream.Server.Take(int(min(int64(len(d.x.Stream.Server.Held())), n)))
	err := d.put(held)
	if err == nil {
		err = d.flush()
	}
	if err != nil {
		return err
	}
	d.x.Down += int64(len(held))
	d.x.Stream.Server.Drop()
	if n -= int64(len(held)); n == 0 {
		return nil
	}
	rest := &io.LimitedReader{R: d.x.Stream.Server.Conn, N: n}
	for {
		got, err := d.copy(rest)
		d.x.Down += got
		switch {
		case got > 0 && errors.Is(err, os.ErrDeadlineExceeded):
			d.x.extend()
		case err != nil:
			return err
		case rest.N > 0 && n < 1<<62:
			return fmt.Errorf("%w: it ended in the middle of the body", request.ErrServer)
		default:
			return nil
		}
	}
}

// copy lets the kernel copy where it can.
func (d *download) copy(from *io.LimitedReader) (int64, error) {
	if tunnel.CanSplice(d.x.Stream.Client.Conn, d.x.Stream.Server.Conn) {
		return io.Copy(d.x.Stream.Client.Conn, from)
	}
	buf := d.x.Stream.Session.Buffers.Get()
	defer d.x.Stream.Session.Buffers.Put(buf)
	if from.N > buffer.Size {
		if b := sock.NewBatch(d.x.Stream.Server.Conn, d.x.Stream.Client.Conn, &d.x.Stream.Session.Batches); b != nil {
			return b.Copy(d.x.Stream.Client.Conn, from, buf[:])
		}
	}
	return io.CopyBuffer(d.x.Stream.Client.Conn, from, buf[:])
}

func (d *download) chunked() error {
	var failed error // of what was held
	before := func() {
		if err := d.flush(); failed == nil {
			failed = err
		}
		d.x.extend()
	}
	c := body.Chunks{In: &body.Reader{Src: d.x.Stream.Server.Source, Before: before},
		Buffers: &d.x.Stream.Session.Buffers}
	err := c.Copy(func(data []byte) error {
		d.x.Down += int64(len(data))
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
		return body.WriteChunk(d.x.Stream.Client.Conn, &d.x.Stream.Session.Buffers, data)
	}
	d.held = body.AppendChunk(d.held, data)
	return nil
}

// A serverAlert is how a server ended TLS once the handshake was over for us.
type serverAlert struct{ word string }

func (e *serverAlert) Error() string {
	return request.ErrServer.Error() + ": it refused (" + e.word +
		"); if it wants a client certificate, tls: tunnel passes the connection on uninspected"
}

func (e *serverAlert) Is(target error) bool { return target == request.ErrServer }
