// Package http1 serves the requests of connections that speak HTTP/1, WebSocket and
// CONNECT.
//
// Promise: each request is parsed and written anew, so that what is sent is what was
// judged. It decides nothing; that and the order of a request's steps is package request.
package http1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"cloister/egress/internal/body"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/request"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/stream"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
)

// ServeAll serves the requests of one connection, each judged for itself. Where
// connected is nil each must be for s.target. Otherwise it is a connection to the explicit
// proxy: each request says where it goes, or is a CONNECT that ends the loop, and connected
// serves the tunnel.
func ServeAll(ctx context.Context, s *stream.Stream, connected func(context.Context)) {
	proxy := connected != nil
	for wait := s.Session.Limits.Handshake; ; wait = s.Session.Limits.Idle {
		if !s.Client.Await(wait) {
			return
		}
		x := newExchange(s)
		err := x.read()
		switch {
		case err != nil && s.Conns.Killed() != nil: // of a head that did not come whole
			s.Reset()
			return
		case err == nil && proxy && x.req.Method == http.MethodConnect:
			s.Client.Conn = redact.Opaque(s.Client.Conn)
			x.connect(ctx, connected)
			return
		case err == nil:
			s.Client.Conn = redact.Client(s.Client.Conn, s.Session.Redact)
			err = routing{x, proxy}.find()
		}
		whole := x.Serve(ctx, err)
		s.BodiesUp.Add(x.Up)
		s.BodiesDown.Add(x.Down)
		if whole && !x.keep && !x.framed {
			s.Say(nil)
		}
		if !whole || !x.keep {
			return
		}
	}
}

// Serve serves the requests of a connection to one host, and tells of
// its end.
func Serve(ctx context.Context, s *stream.Stream) {
	ServeAll(ctx, s, nil)
	s.Server.Lend(s.Target)
	s.TellEnd()
}

// An exchange is one request with its responses in HTTP/1: a codec.
type exchange struct {
	request.Request

	req    *wire.Request
	target string // origin-form, as it is sent on
	// upgrade is the key of a WebSocket handshake, empty for other requests.
	upgrade  string
	extended bool // its frames may be an extension's
	framed   bool // it has become a WebSocket
	// Of a request that is changed: the program's body, and what goes up instead of it,
	// nil for as it is, of outLength bytes, or -1.
	in        *body.In
	out       io.Reader
	outLength int64

	looked    *request.Looked // what was read of the body for a person; nil for nothing
	continued bool            // the program was asked to send its body

	sent   *upload        // what goes up, until it is stopped
	reused bool           // the connection to the server was there
	resp   *wire.Response // the answer's head
	from   *body.In       // the answer's body, where edits may read it
	reply  download
	keep   bool        // the connection can take another request
	ended  atomic.Bool // the program has ended its sending
}

// exchangeMemory is what a request of HTTP/1 under way holds besides its connection:
// records of TLS on both sides, what is searched, and buffers. It is taken once the
// request is allowed: until then its body stays in the kernel.
const exchangeMemory = 64 << 10

// newExchange is a request that begins now.
func newExchange(s *stream.Stream) *exchange {
	x := &exchange{Request: request.Request{Stream: s, Start: time.Now(), To: s.Target, Via: s.Via,
		Once: &s.Judged.Once, Alone: true, Late: exchangeMemory}}
	x.Codec, x.reply.x = x, x
	return x
}

// read reads the head.
func (x *exchange) read() error {
	req, err := x.Stream.Client.ReadRequest()
	if err == nil {
		x.req, x.Method, x.Length = req, req.Method, req.Length
		return nil
	}
	if _, is := errors.AsType[*wire.SyntaxError](err); is {
		return err
	}
	return &verdict.Form{Status: http.StatusRequestTimeout, Reason: "http head: " + stream.EndOf(err)}
}

// Refuse answers, and ends the connection: what the program has sent behind the refused
// head is then no one's request.
func (x *exchange) Refuse(r *refusal.Refusal) {
	if r == nil {
		x.Stream.Reset()
		return
	}
	x.Stream.Say(r.Response(x.req))
}

// Message is the request under its edits.
func (x *exchange) Message() *verdict.Message {
	x.in = body.New(x.Stream.Client.Source, &x.Stream.Session.Buffers, x.req.Body, x.req.Length,
		func() { x.Stream.Client.ReadBy(x.Stream.Session.Limits.Idle) })
	x.in.Most = x.Most
	if x.Over != nil {
		x.in.Over = x.Over
	}
	if x.waits() {
		x.in.First = x.goOn
	}
	path, query, _ := strings.Cut(x.judged(), "?")
	return verdict.NewMessage(verdict.Message{Authority: x.To, Secure: x.Stream.Server.Secure, Method: x.req.Method,
		Path: path, Query: query}, slices.Clone(x.req.Header), x.in, x.in.Length())
}

// judged is the target as it is sent on: where rules read paths, as they read this one.
func (x *exchange) judged() string {
	if !x.Verdict.Inspect || x.HTTP.BadPath != nil || x.target == "*" {
		return x.target
	}
	target := x.HTTP.Path.Wire()
	if strings.Contains(x.target, "?") {
		target += "?" + x.HTTP.Query
	}
	return target
}

// edited puts what the edits made of m in the place of the program's request.
func (x *exchange) edited(m *verdict.Message) error {
	if path, query, _ := strings.Cut(x.target, "?"); m.Query != query {
		x.target = path + "?" + m.Query
	}
	req := *x.req
	req.Header = m.Header.Fields()
	if x.upgrade != "" && verdict.ReadsFrames(x.Verdict.Edits) {
		req.Header = req.Header.Without(func(name string) bool { return name == "sec-websocket-extensions" })
	}
	x.req = &req
	if !m.Replaced() && x.in.N.Load() == 0 {
		return nil
	}
	x.out, x.outLength = m.Body(), m.Length()
	if !m.Replaced() {
		x.outLength = -1
	}
	if x.in.First == nil {
		return nil
	}
	err := x.in.First() // from here on the answer is written by another goroutine
	x.in.First = nil
	return err
}

// Send writes the request to a connection to its server, and reads the answer's head.
func (x *exchange) Send(ctx context.Context, m *verdict.Message) (*verdict.Message, error) {
	s := x.Stream
	x.target = x.judged()
	if m != nil {
		if err := x.edited(m); err != nil {
			return nil, err
		}
	}
	if s.Server.Lent && !x.repeatable() {
		s.Server.Lend(s.Target) // for another: this request could not be sent twice
		s.Server.HangUp()
	}
	if x.reused = x.reusable(); !x.reused {
		if err := s.Server.Dial(ctx, x.To); err != nil {
			return nil, &request.Undialed{Err: err}
		}
	}
	err := x.transmit()
	if err != nil && s.Server.Lent {
		if err = x.stop(err); x.silent(err) {
			x.reused = false
			if err := s.Server.Dial(ctx, x.To); err != nil {
				return nil, &request.Undialed{Err: err}
			}
			err = x.transmit()
		}
	}
	if s.Server.Lent = false; err != nil {
		return nil, err
	}
	if len(x.Verdict.Edits) == 0 {
		return nil, nil // no edit wants to see the answer
	}
	return x.answer(), nil
}

// answer is the answer under the request's edits.
func (x *exchange) answer() *verdict.Message {
	r := x.resp
	x.from = body.New(x.Stream.Server.Source, &x.Stream.Session.Buffers, r.Body, r.Length, x.extend)
	return verdict.NewMessage(verdict.Message{Authority: x.To, Secure: x.Stream.Server.Secure, Method: x.req.Method,
		Path: x.Path, Status: r.Status}, slices.Clone(r.Header), x.from, x.from.Length())
}

// Pass gives the program the answer's head, and what follows it.
func (x *exchange) Pass(m *verdict.Message) error {
	var own *answer
	if m != nil {
		own = x.editedAnswer(m)
	}
	if x.resp.Status == http.StatusSwitchingProtocols {
		return webSocket{x}.serve()
	}
	return x.reply.final(own)
}

// stop ends what goes up, and gives err, or what was wrong on the program's side where that is known.
func (x *exchange) stop(err error) error {
	u := x.sent
	if u == nil {
		return err
	}
	x.sent = nil
	u.stop()
	x.Up = u.n
	if err != nil && u.clientErr != nil {
		err = u.clientErr
	}
	x.Stream.Server.Whole = u.complete && err == nil
	return err
}

// End stops what goes up, and says whose fault it is that the request broke.
func (x *exchange) End(err error) error {
	err = x.stop(err)
	if err == nil {
		x.keep = x.keep && x.Stream.Server.Whole
		x.Stream.Server.Answered = x.Stream.Server.Answered || !x.framed
		return nil
	}
	if _, is := errors.AsType[*request.Broken](err); is || request.Refuses(err) {
		return err
	}
	b := &request.Broken{Reason: "connection broken", Silent: true}
	switch cause := x.Stream.Conns.Killed(); {
	case cause != nil:
		b.Reason = cause.Error()
	case errors.Is(err, request.ErrServer):
		b.Reason = err.Error()
		// A kept connection that the server closed as we used it: the program
		// meets that without us too, and knows whether to try again.
		b.Silent = x.reused && x.Stream.Server.Answered && errors.Is(err, io.EOF)
	}
	return b
}

// silent reports whether the server ended the connection without a word of an answer.
func (x *exchange) silent(err error) bool {
	return errors.Is(err, request.ErrServer) && !x.ended.Load() && !x.Answered && !x.reply.heard &&
		len(x.Stream.Server.Held()) == 0 && x.Stream.Conns.Killed() == nil
}

// reusable reports whether the connection that is there can take this request.
// Bytes that are there already are an answer to a question no one asked; in TLS
// they may be tickets before the first answer.
func (x *exchange) reusable() bool {
	s := x.Stream
	if !s.Server.There() || s.Server.To != x.To || len(s.Server.Held()) > 0 {
		return false
	}
	return s.Server.Secure && !s.Server.Answered || sock.Idle(s.Server.Conn)
}
