package egress

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
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
)

// serveHTTP serves the requests of one connection, each judged for itself. In
// a direct connection each must be for s.target; through the explicit proxy
// each says where it goes, or is a CONNECT that ends the loop.
func (s *stream) serveHTTP(ctx context.Context, proxy bool) {
	for wait := s.e.limits.Handshake; ; wait = s.e.limits.Idle {
		if !s.client.await(wait) {
			return
		}
		x := newExchange(s)
		err := x.read()
		switch {
		case err != nil && s.conns.killed() != nil: // of a head that did not come whole
			s.reset()
			return
		case err == nil && proxy && x.req.Method == http.MethodConnect:
			s.client.Conn = redact.Opaque(s.client.Conn)
			x.connect(ctx)
			return
		case err == nil:
			s.client.Conn = redact.Client(s.client.Conn, s.e.cfg.Redact)
			err = routing{x, proxy}.find()
		}
		whole := x.serve(ctx, err)
		s.bodiesUp.Add(x.up)
		s.bodiesDown.Add(x.down)
		if whole && !x.keep && !x.framed {
			s.say(nil)
		}
		if !whole || !x.keep {
			return
		}
	}
}

// serveRequests serves the requests of a connection to one host, and tells of
// its end.
func (s *stream) serveRequests(ctx context.Context) {
	s.serveHTTP(ctx, false)
	s.up.lend(s.target)
	s.tellEnd()
}

// An exchange is one request with its responses in HTTP/1: a codec.
type exchange struct {
	request

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

	looked    *looked // what was read of the body for a person; nil for nothing
	continued bool    // the program was asked to send its body

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
func newExchange(s *stream) *exchange {
	x := &exchange{request: request{s: s, start: time.Now(), to: s.target, via: s.via, once: &s.judged.once, alone: true,
		late: exchangeMemory}}
	x.codec, x.reply.x = x, x
	return x
}

// read reads the head.
func (x *exchange) read() error {
	req, err := x.s.client.readRequest()
	if err == nil {
		x.req, x.method, x.length = req, req.Method, req.Length
		return nil
	}
	if _, is := errors.AsType[*wire.SyntaxError](err); is {
		return err
	}
	return &verdict.Form{Status: http.StatusRequestTimeout, Reason: "http head: " + endOf(err)}
}

// refuse answers, and ends the connection: what the program has sent behind the refused
// head is then no one's request.
func (x *exchange) refuse(r *refusal.Refusal) {
	if r == nil {
		x.s.reset()
		return
	}
	x.s.say(r.Response(x.req))
}

// message is the request under its edits.
func (x *exchange) message() *verdict.Message {
	x.in = body.New(x.s.client.Source, &x.s.e.buffers, x.req.Body, x.req.Length,
		func() { x.s.client.readBy(x.s.e.limits.Idle) })
	x.in.Most = x.most
	if x.over != nil {
		x.in.Over = x.over
	}
	if x.waits() {
		x.in.First = x.goOn
	}
	path, query, _ := strings.Cut(x.judged(), "?")
	return verdict.NewMessage(verdict.Message{Authority: x.to, Secure: x.s.up.secure, Method: x.req.Method, Path: path,
		Query: query}, slices.Clone(x.req.Header), x.in, x.in.Length())
}

// judged is the target as it is sent on: where rules read paths, as they read this one.
func (x *exchange) judged() string {
	if !x.verdict.Inspect || x.http.BadPath != nil || x.target == "*" {
		return x.target
	}
	target := x.http.Path.Wire()
	if strings.Contains(x.target, "?") {
		target += "?" + x.http.Query
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
	if x.upgrade != "" && verdict.ReadsFrames(x.verdict.Edits) {
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

// send writes the request to a connection to its server, and reads the answer's head.
func (x *exchange) send(ctx context.Context, m *verdict.Message) (*verdict.Message, error) {
	s := x.s
	x.target = x.judged()
	if m != nil {
		if err := x.edited(m); err != nil {
			return nil, err
		}
	}
	if s.up.lent && !x.repeatable() {
		s.up.lend(s.target) // for another: this request could not be sent twice
		s.up.hangUp()
	}
	if x.reused = x.reusable(); !x.reused {
		if err := s.up.dial(ctx, x.to); err != nil {
			return nil, &undialed{err}
		}
	}
	err := x.transmit()
	if err != nil && s.up.lent {
		if err = x.stop(err); x.silent(err) {
			x.reused = false
			if err := s.up.dial(ctx, x.to); err != nil {
				return nil, &undialed{err}
			}
			err = x.transmit()
		}
	}
	if s.up.lent = false; err != nil {
		return nil, err
	}
	if len(x.verdict.Edits) == 0 {
		return nil, nil // no edit wants to see the answer
	}
	return x.answer(), nil
}

// answer is the answer under the request's edits.
func (x *exchange) answer() *verdict.Message {
	r := x.resp
	x.from = body.New(x.s.up.Source, &x.s.e.buffers, r.Body, r.Length, x.extend)
	return verdict.NewMessage(verdict.Message{Authority: x.to, Secure: x.s.up.secure, Method: x.req.Method, Path: x.path,
		Status: r.Status}, slices.Clone(r.Header), x.from, x.from.Length())
}

// pass gives the program the answer's head, and what follows it.
func (x *exchange) pass(m *verdict.Message) error {
	var own *answer
	if m != nil {
		own = x.editedAnswer(m)
	}
	if x.resp.Status == http.StatusSwitchingProtocols {
		return webSocket{x}.serve()
	}
	return x.reply.final(own)
}

// stop ends what goes up, and gives err or what was wrong on the program's side.
func (x *exchange) stop(err error) error {
	u := x.sent
	if u == nil {
		return err
	}
	x.sent = nil
	u.stop()
	x.up = u.n
	if err != nil && u.clientErr != nil {
		err = u.clientErr
	}
	x.s.up.whole = u.complete && err == nil
	return err
}

// end stops what goes up, and says whose fault it is that the request broke.
func (x *exchange) end(err error) error {
	err = x.stop(err)
	if err == nil {
		x.keep = x.keep && x.s.up.whole
		x.s.up.answered = x.s.up.answered || !x.framed
		return nil
	}
	if _, is := errors.AsType[*broken](err); is || refuses(err) {
		return err
	}
	b := &broken{reason: "connection broken", silent: true}
	switch cause := x.s.conns.killed(); {
	case cause != nil:
		b.reason = cause.Error()
	case errors.Is(err, errUpstream):
		b.reason = err.Error()
		// A kept connection that the server closed as we used it: the program
		// meets that without us too, and knows whether to try again.
		b.silent = x.reused && x.s.up.answered && errors.Is(err, io.EOF)
	}
	return b
}

// silent reports whether the server ended the connection without a word of an answer.
func (x *exchange) silent(err error) bool {
	return errors.Is(err, errUpstream) && !x.ended.Load() && !x.answered && !x.reply.heard && len(x.s.up.Held()) == 0 &&
		x.s.conns.killed() == nil
}

// reusable reports whether the connection that is there can take this request.
// Bytes that are there already are an answer to a question no one asked; in TLS
// they may be tickets before the first answer.
func (x *exchange) reusable() bool {
	s := x.s
	if !s.up.there() || s.up.to != x.to || len(s.up.Held()) > 0 {
		return false
	}
	return s.up.secure && !s.up.answered || sock.Idle(s.up.Conn)
}

// errUpstream marks what the server did wrong.
var errUpstream = errors.New("the server's answer")
