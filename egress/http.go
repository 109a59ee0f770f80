package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"cloister/egress/internal/body"
	"cloister/egress/internal/dial"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
)

// serveHTTP serves the requests of one connection, each judged for itself. In
// a direct connection each must be for s.target; through the explicit proxy
// each says where it goes, or is a CONNECT that ends the loop.
func (s *stream) serveHTTP(ctx context.Context, proxy bool) {
	for wait := s.e.limits.Handshake; ; wait = s.e.limits.Idle {
		if !s.awaitRequest(wait) {
			return
		}
		x := s.newExchange()
		err := x.read()
		switch {
		case err != nil && s.killed() != nil: // of a head that did not come whole
			s.reset()
			return
		case err == nil && proxy && x.req.Method == http.MethodConnect:
			s.client.Conn = redact.Opaque(s.client.Conn)
			s.serveConnect(ctx, x)
			return
		case err == nil:
			s.client.Conn = redact.Client(s.client.Conn, s.e.cfg.Redact)
			err = x.route(proxy)
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
	s.lend()
	s.tellEnd()
}

// tellEnd tells the end of a connection whose requests were read.
func (s *stream) tellEnd() {
	f := s.flow(Flow{Kind: Connect, Up: s.bodiesUp.Load(), Down: s.bodiesDown.Load()})
	f.Duration = time.Since(f.Start)
	if cause := s.killed(); cause != nil {
		f.Reason = cause.Error()
	}
	if s.alert != "" && f.Up+f.Down == 0 && f.Reason == "" { // of TLS 1.3: the handshake was over for us
		f.Reason, f.Hints = s.distrusted(s.alert)
		s.e.refused(f)
		return
	}
	s.e.cfg.Journal.Closed(f)
}

// awaitRequest waits for the first byte of the next head.
func (s *stream) awaitRequest(wait time.Duration) bool {
	if len(s.client.Held()) > 0 {
		return true
	}
	s.client.Drop()
	s.readSoon(wait)
	err := s.client.Fill(wire.MaxHead)
	if err != nil {
		s.alert = dial.AlertOf(err)
	}
	return err == nil
}

// readRequest reads one head off the client.
func (s *stream) readRequest() (*wire.Request, error) {
	head, err := readHead(s.client, func() { s.readBy(s.e.limits.Handshake) })
	if err != nil {
		return nil, err
	}
	return wire.ParseRequest(head)
}

// readHead reads as much of src as makes one head; what follows it stays. short,
// where not nil, is called once where what is here is not all of it.
func readHead(src *peek.Conn, short func()) ([]byte, error) {
	var scan wire.HeadScan
	for {
		n, err := scan.Next(src.Held())
		switch {
		case err == nil:
			return src.Take(n), nil
		case !errors.Is(err, wire.ErrShort):
			return nil, err
		}
		if short != nil {
			short()
			short = nil
		}
		if err := src.Fill(wire.MaxHead + peek.First); err != nil {
			return nil, err
		}
	}
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
	continued bool    // the program was told to send its body

	sent   *upload        // what goes up, until it is stopped
	reused bool           // the connection to the server was there
	resp   *wire.Response // the answer's head
	from   *body.In       // the answer's body, where edits may read it
	held   []byte         // of the answer, on its way to the program
	heard  bool           // the server has begun to answer
	keep   bool           // the connection can take another request
	ended  atomic.Bool    // the program has ended its sending
}

// exchangeMemory is what a request of HTTP/1 under way holds besides its connection:
// records of TLS on both sides, what is searched, and buffers. It is taken once the
// request is allowed: until then its body stays in the kernel.
const exchangeMemory = 64 << 10

// newExchange is a request that begins now.
func (s *stream) newExchange() *exchange {
	x := &exchange{request: request{s: s, start: time.Now(), to: s.target, via: s.via, once: &s.once, alone: true,
		late: exchangeMemory}}
	x.codec = x
	return x
}

// read reads the head.
func (x *exchange) read() error {
	req, err := x.s.readRequest()
	if err == nil {
		x.req, x.method, x.length = req, req.Method, req.Length
		return nil
	}
	if _, is := errors.AsType[*wire.SyntaxError](err); is {
		return err
	}
	return &formError{status: http.StatusRequestTimeout, reason: "http head: " + endOf(err)}
}

// A formError refuses a request for its form.
type formError struct {
	status int
	reason string
	detail string
	// Of a bound: its name, what would widen it, when to try again.
	rule  string
	place string // where the rule stands, if it is in a file
	hints []string
	retry time.Duration
}

func (e *formError) Error() string { return e.reason }

// route finds where the request goes and holds its Host to that.
func (x *exchange) route(proxy bool) error {
	defer func() { x.path = x.recordPath() }()
	if err := x.checkForm(); err != nil {
		return err
	}
	if rest, ok := x.cutScheme(); ok {
		if err := x.absolute(rest, proxy); err != nil {
			return err
		}
	} else {
		if proxy {
			return &formError{status: 400, reason: "a proxy takes http://HOST/PATH or CONNECT; https:// goes through CONNECT"}
		}
		if x.target = x.req.Target; x.target[0] != '/' && (x.target != "*" || x.req.Method != http.MethodOptions) {
			return &formError{status: 400, reason: "a target that is no path"}
		}
	}
	if err := x.checkHost(proxy); err != nil {
		return err
	}
	x.readTarget()
	return nil
}

// readTarget finds the readings of the request: all judge by them.
func (x *exchange) readTarget() {
	x.dropNamed()
	x.http.To, x.http.Method, x.http.Header = x.to, x.req.Method, x.req.Header.All
	if x.http.Body = x.req.Body == wire.Chunked || x.req.Length > 0; x.http.Body {
		x.http.Look = x.look
	}
	x.http.Target(x.target)
	for _, f := range x.req.Header {
		x.http.Note(f.Name, f.Value)
	}
	x.http.Read()
}

// dropNamed takes away at once what Connection names, which is not sent on (RFC
// 9110 7.6.1): it must neither satisfy a rule nor take a field with it that an
// Edit sets.
func (x *exchange) dropNamed() {
	known := []string{"close", "keep-alive", "upgrade", "te"}
	named, kept := x.req.Header.Tokens("Connection"), []string(nil)
	for _, token := range named {
		if slices.Contains(known, token) {
			kept = append(kept, token)
		}
	}
	if len(kept) == len(named) {
		return
	}
	req := *x.req
	req.Header = x.req.Header.Without(func(name string) bool {
		return name == "connection" || slices.Contains(named, name) && !slices.Contains(known, name)
	})
	if len(kept) > 0 {
		req.Header = append(req.Header, wire.Field{Name: "Connection", Value: strings.Join(kept, ", ")})
	}
	x.req = &req
}

// cutScheme cuts the connection's own scheme off an absolute-form target.
func (x *exchange) cutScheme() (string, bool) {
	scheme, target := "http://", x.req.Target
	if x.s.secure {
		scheme = "https://"
	}
	if len(target) < len(scheme) || !strings.EqualFold(target[:len(scheme)], scheme) {
		return "", false
	}
	return target[len(scheme):], true
}

// absolute reads HOST[:PORT]/PATH.
func (x *exchange) absolute(rest string, proxy bool) error {
	host, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if path[0] == '?' {
		path = "/" + path
	}
	if host == "" || strings.Contains(host, "@") {
		return &formError{status: 400, reason: "a target without plain host", detail: quote(x.req.Target)}
	}
	to, err := authority.ParseHostPort(host, x.s.defaultPort())
	if err != nil {
		return &formError{status: 400, reason: err.Error()}
	}
	x.target = path
	if proxy {
		if x.via, x.to = ViaHTTP, to; to.Port() == 443 { // as a direct connection is told
			return &formError{status: 400, reason: "http:// at port 443, which takes TLS: https:// goes through CONNECT"}
		}
		x.to, err = x.s.e.named(to)
		if err != nil {
			return &formError{status: 403, reason: err.Error()}
		}
		return nil
	}
	if to != x.to {
		return &formError{status: 421, reason: "the target's host is not the name that was connected to",
			detail: "target " + quote(host)}
	}
	return nil
}

// checkHost holds the Host field to the destination. A missing port is the
// connection's: many clients leave it out.
func (x *exchange) checkHost(proxy bool) error {
	got, err := authority.ParseHostPort(x.req.Host, x.to.Port())
	if err != nil {
		return &formError{status: 400, reason: "Host: " + err.Error()}
	}
	if proxy {
		if got, err = x.s.e.named(got); err != nil {
			return &formError{status: 403, reason: err.Error()}
		}
	}
	if got != x.to {
		return &formError{status: 421, reason: "Host is not the name that was connected to",
			detail: "Host " + quote(x.req.Host)}
	}
	return nil
}

// checkForm refuses what would make another protocol of this connection, or
// would let a field that we check be dropped further on.
func (x *exchange) checkForm() error {
	h := x.req.Header
	if _, n := h.Get("Upgrade"); n > 0 {
		if err := x.checkUpgrade(); err != nil {
			return err
		}
	}
	if _, n := h.Get("HTTP2-Settings"); n > 0 {
		return &formError{status: 400, reason: "an upgrade to HTTP/2"}
	}
	if x.req.Method == http.MethodConnect {
		return &formError{status: 405, reason: "CONNECT to a server that is no proxy"}
	}
	if x.req.Method == "PRI" {
		return &formError{status: 400, reason: "the HTTP/2 preface"}
	}
	for _, token := range h.Tokens("Connection") {
		switch token {
		case "upgrade":
			if x.upgrade == "" {
				return &formError{status: 400, reason: "Connection names the field upgrade"}
			}
		case "host", "content-length", "transfer-encoding", "authorization", "cookie":
			return &formError{status: 400, reason: "Connection names the field " + token}
		}
	}
	for _, token := range h.Tokens("Expect") {
		if token != "100-continue" {
			return &formError{status: 417, reason: "an expectation other than 100-continue"}
		}
	}
	return nil
}

// recordPath is the request's path for the record: without the query, which may
// carry secrets.
func (x *exchange) recordPath() string {
	if x.http.BadPath == nil && x.http.Header != nil && x.target != "*" {
		return x.http.Path.Wire()
	}
	path, _, _ := strings.Cut(x.target, "?")
	return path
}

// refuse answers, and ends the connection: what the program has sent behind the refused
// head is then no one's request.
func (x *exchange) refuse(r *refusal) {
	if r == nil {
		x.s.reset()
		return
	}
	x.s.say(r.response(x.req))
}

// message is the request under its edits.
func (x *exchange) message() *Message {
	x.in = body.New(x.s.client, &x.s.e.buffers, x.req.Body, x.req.Length, func() { x.s.readBy(x.s.e.limits.Idle) })
	x.in.Most = x.most
	if x.over != nil {
		x.in.Over = x.over
	}
	if x.waits() {
		x.in.First = x.goOn
	}
	path, query, _ := strings.Cut(x.judged(), "?")
	return &Message{
		Authority: x.to, Secure: x.s.secure, Method: x.req.Method, Path: path, Query: query,
		Header: Header{fields: slices.Clone(x.req.Header)}, body: x.in, length: x.in.Length(),
	}
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
func (x *exchange) edited(m *Message) error {
	if path, query, _ := strings.Cut(x.target, "?"); m.Query != query {
		x.target = path + "?" + m.Query
	}
	req := *x.req
	req.Header = m.Header.fields
	if x.upgrade != "" && readsFrames(x.verdict.Edits) {
		req.Header = req.Header.Without(func(name string) bool { return name == "sec-websocket-extensions" })
	}
	x.req = &req
	if !m.replaced && x.in.N.Load() == 0 {
		return nil
	}
	x.out, x.outLength = m.body, m.length
	if !m.replaced {
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
func (x *exchange) send(ctx context.Context, m *Message) (*Message, error) {
	s := x.s
	x.target = x.judged()
	if m != nil {
		if err := x.edited(m); err != nil {
			return nil, err
		}
	}
	if s.lent && !x.repeatable() {
		s.lend() // for another: this request could not be sent twice
		s.hangUp()
	}
	if x.reused = x.reusable(); !x.reused {
		if err := s.dial(ctx, x.to); err != nil {
			return nil, &undialed{err}
		}
	}
	err := x.transmit()
	if err != nil && s.lent {
		if err = x.stop(err); x.silent(err) {
			x.reused = false
			if err := s.dial(ctx, x.to); err != nil {
				return nil, &undialed{err}
			}
			err = x.transmit()
		}
	}
	if s.lent = false; err != nil {
		return nil, err
	}
	if len(x.verdict.Edits) == 0 {
		return nil, nil // no edit wants to see the answer
	}
	return x.answer(), nil
}

// answer is the answer under the request's edits.
func (x *exchange) answer() *Message {
	r := x.resp
	x.from = body.New(x.s.up, &x.s.e.buffers, r.Body, r.Length, x.extend)
	return &Message{
		Authority: x.to, Secure: x.s.secure, Method: x.req.Method, Path: x.path, Status: r.Status,
		Header: Header{fields: slices.Clone(r.Header)}, body: x.from, length: x.from.Length(),
	}
}

// pass gives the program the answer's head, and what follows it.
func (x *exchange) pass(m *Message) error {
	var own *answer
	if m != nil {
		own = x.editedAnswer(m)
	}
	if x.resp.Status == http.StatusSwitchingProtocols {
		return x.upgraded()
	}
	return x.final(own)
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
	x.s.whole = u.complete && err == nil
	return err
}

// end stops what goes up, and says whose fault it is that the request broke.
func (x *exchange) end(err error) error {
	err = x.stop(err)
	if err == nil {
		x.keep = x.keep && x.s.whole
		x.s.answered = x.s.answered || !x.framed
		return nil
	}
	if _, is := errors.AsType[*broken](err); is || refuses(err) {
		return err
	}
	b := &broken{reason: "connection broken", silent: true}
	switch cause := x.s.killed(); {
	case cause != nil:
		b.reason = cause.Error()
	case errors.Is(err, errUpstream):
		b.reason = err.Error()
		// A kept connection that the server closed as we used it: the program
		// meets that without us too, and knows whether to try again.
		b.silent = x.reused && x.s.answered && errors.Is(err, io.EOF)
	}
	return b
}

// silent reports whether the server ended the connection without a word of an answer.
func (x *exchange) silent(err error) bool {
	return errors.Is(err, errUpstream) && !x.ended.Load() && !x.answered && !x.heard && len(x.s.up.Held()) == 0 &&
		x.s.killed() == nil
}

// reusable reports whether the connection that is there can take this request.
// Bytes that are there already are an answer to a question no one asked; in TLS
// they may be tickets before the first answer.
func (x *exchange) reusable() bool {
	s := x.s
	if s.up == nil || s.upTarget != x.to || len(s.up.Held()) > 0 {
		return false
	}
	return s.secure && !s.answered || sock.Idle(s.up.Conn)
}

// errUpstream marks what the server did wrong.
var errUpstream = errors.New("the server's answer")

// requestHead writes the request anew, from what was understood of it. It is valid
// until the answer's head is written.
func (x *exchange) requestHead() []byte {
	if x.s.scratch == nil {
		x.s.scratch = make([]byte, 0, 1024)
	}
	b := append(x.s.scratch[:0], x.req.Method...)
	b = append(append(append(b, ' '), x.target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, hostField(x.to, x.s.defaultPort())...), "\r\n"...)
	hop := x.req.Header.Hop()
	for _, f := range x.req.Header {
		switch {
		case hop.Has(f.Name), wire.Is(f.Name, "host"), wire.Is(f.Name, "content-length"),
			wire.Is(f.Name, "transfer-encoding"), (x.out != nil || x.continued) && wire.Is(f.Name, "expect"):
		default:
			b = f.Append(b)
		}
	}
	_, counted := x.req.Header.Get("Content-Length")
	switch {
	case x.out != nil && x.outLength >= 0:
		b = append(b, "Content-Length: "+strconv.FormatInt(x.outLength, 10)+"\r\n"...)
	case x.out != nil || x.req.Body == wire.Chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case counted > 0:
		b = append(b, "Content-Length: "+strconv.FormatInt(x.req.Length, 10)+"\r\n"...)
	}
	switch {
	case x.upgrade != "":
		b = append(b, "Connection: Upgrade\r\nUpgrade: websocket\r\n"...)
	case slices.Contains(x.req.Header.Tokens("TE"), "trailers"):
		b = append(b, "TE: trailers\r\nConnection: TE\r\n"...)
	}
	return append(b, "\r\n"...)
}

// hostField is the Host of an authority, without the port that its scheme means.
func hostField(a authority.Authority, implied uint16) string {
	text := a.String()
	if a.Port() == implied {
		text = strings.TrimSuffix(text, ":"+strconv.Itoa(int(implied)))
	}
	return text
}

// defaultPort is the port that the connection's scheme means.
func (s *stream) defaultPort() uint16 {
	if s.secure {
		return 443
	}
	return 80
}

func wantsClose(h wire.Header) bool {
	return slices.Contains(append(h.Tokens("Connection"), h.Tokens("Proxy-Connection")...), "close")
}
