package http1

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"cloister/egress/internal/body"
	"cloister/egress/internal/request"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/stream"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
)

// trailers are those of an answer as they go down.
func (x *exchange) trailers(fields wire.Header) wire.Header {
	return clean(x.Stream.Session, verdict.EditTrailers(x.Verdict.Edits, fields))
}

// clean leaves out the fields whose names hold what must not reach the program.
func clean(e *stream.Session, fields wire.Header) wire.Header {
	if e.Redact == nil {
		return fields
	}
	by := e.Redact()
	if by == nil || !slices.ContainsFunc(fields, func(f wire.Field) bool { return by.InName(f.Name) }) {
		return fields
	}
	return fields.Without(by.InName)
}

// waits reports whether the program sends its body only once it is asked to.
func (x *exchange) waits() bool {
	return !x.continued && x.req.Minor == 1 && slices.Contains(x.req.Header.Tokens("Expect"), "100-continue")
}

// goOn tells a program that waits with its body that it is wanted.
func (x *exchange) goOn() error {
	x.continued = true
	_, err := x.Stream.Client.Conn.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	return err
}

// An answer is one that goes down as an Edit gives it.
type answer struct {
	x      *exchange
	body   io.Reader
	length int64
	from   *body.In // the server's own
}

// editedAnswer takes what the edits made of the answer's head, and gives the body that
// goes down, nil for as it comes.
func (x *exchange) editedAnswer(m *verdict.Message) *answer {
	r := x.resp
	r.Header = m.Header.Fields()
	if r.Body == wire.NoBody || !m.Replaced() && x.from.N.Load() == 0 {
		return nil
	}
	length := m.Length()
	if !m.Replaced() {
		length = -1
	}
	return &answer{x: x, body: m.Body(), length: length, from: x.from}
}

// frame takes the server's word about the body's end out of its answer, and
// gives ours.
func (a *answer) frame(r *wire.Response) wire.Header {
	r.Header = r.Header.Without(func(name string) bool { return name == "content-length" })
	switch {
	case a.length >= 0:
		return wire.Header{{Name: "Content-Length", Value: strconv.FormatInt(a.length, 10)}}
	case a.x.req.Minor == 1:
		return wire.Header{{Name: "Transfer-Encoding", Value: "chunked"}}
	}
	return nil
}

// pass gives the program the body as it comes.
func (a *answer) pass() error {
	x := a.x
	buf := x.Stream.Session.Buffers.Get()
	defer x.Stream.Session.Buffers.Put(buf)
	p := &body.Passage{To: x.Stream.Client.Conn, Buffers: &x.Stream.Session.Buffers, Left: a.length,
		Chunked: a.length < 0 && x.req.Minor == 1}
	err := p.Copy(a.body, buf[:])
	x.Down += p.N
	switch {
	case errors.Is(err, sock.ErrWrite):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", request.ErrServer, err)
	case p.Chunked:
		return body.WriteTrailers(p.To, x.trailers(a.from.Trailers()))
	}
	return nil
}
