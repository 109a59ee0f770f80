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

	"cloister/egress/internal/dial"
	"cloister/egress/internal/peek"
	"cloister/egress/internal/quota"
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
		began := time.Now()
		req, err := s.readRequest()
		if err != nil {
			s.refuseHead(began, err)
			return
		}
		if proxy && req.Method == http.MethodConnect {
			s.client.Conn = redact.Opaque(s.client.Conn)
			s.serveConnect(ctx, req)
			return
		}
		s.client.Conn = redact.Client(s.client.Conn, s.e.cfg.Redact)
		x := &exchange{s: s, req: req, start: began}
		if err := x.route(proxy); err != nil {
			x.refuse(err)
			return
		}
		keep := x.run(ctx)
		s.bodiesUp.Add(x.up)
		s.bodiesDown.Add(x.down)
		if !keep {
			return
		}
		s.setCurrent(nil, s.inspected())
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

// refuseHead answers a head that could not be read.
func (s *stream) refuseHead(began time.Time, err error) {
	f := s.flow(Flow{Kind: Request, Start: began, Reason: "http head: " + endOf(err), Status: http.StatusRequestTimeout})
	syntax, is := errors.AsType[*wire.SyntaxError](err)
	if is {
		f.Reason, f.Status = syntax.Error(), syntax.Status
	}
	if s.killed() != nil || !s.e.refused(f) {
		s.reset()
		return
	}
	s.say(refusal{Status: f.Status, Host: s.target.Host(), Port: s.target.Port(), Reason: f.Reason}.response(nil))
}

// An exchange is one request with its responses.
type exchange struct {
	s      *stream
	req    *wire.Request
	start  time.Time
	to     authority.Authority
	target string // origin-form, as it is sent on
	http   HTTP   // what rules read of it
	via    string
	// upgrade is the key of a WebSocket handshake, empty for other requests.
	upgrade  string
	extended bool       // its frames may be an extension's
	most     int64      // what the body may hold; 0 is no bound
	over     *formError // of a body that holds more
	verdict  Verdict    // what allowed it
	use      *quota.Host
	// Of a request that is changed: by what, the program's body, and what goes up
	// instead of it, nil for as it is, of outLength bytes, or -1.
	edits     []Edit
	in        *bodyIn
	out       io.Reader
	outLength int64

	looked    *looked // what was read of the body for a person; nil for nothing
	continued bool    // the program was told to send its body

	held     []byte // of the answer, on its way to the program
	heard    bool   // the server has begun to answer
	status   int
	up, down int64
	answered bool        // the program has got a byte of a response
	ended    atomic.Bool // the program has ended its sending
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
	x.to, x.via = x.s.target, x.s.via
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

// path is the request's path for the record: without the query, which may
// carry secrets.
func (x *exchange) path() string {
	if x.http.BadPath == nil && x.http.Header != nil && x.target != "*" {
		return x.http.Path.Wire()
	}
	path, _, _ := strings.Cut(x.target, "?")
	return path
}

func (x *exchange) flow() Flow {
	return Flow{
		Kind: Request, Authority: x.to, Via: x.via, Method: x.req.Method, Path: x.path(),
		Status: x.status, Dialed: x.s.dialed, Up: x.up, Down: x.down, Start: x.start, Duration: time.Since(x.start),
	}
}

// refuse records a refusal of protocol and answers it.
func (x *exchange) refuse(err error) {
	x.status = http.StatusBadRequest
	f := x.flow()
	f.Reason = err.Error()
	if form, ok := errors.AsType[*formError](err); ok {
		f.refused(form)
	}
	if syntax, ok := errors.AsType[*wire.SyntaxError](err); ok {
		f.Status = syntax.Status
	}
	r := f.refusal()
	if edit, ok := errors.AsType[*Refused](err); ok {
		f.Status, f.Hints, r = edit.status(), edit.Verdict.Hints, edit.refusal(x.to)
	}
	r.Status = f.Status
	if x.s.killed() != nil || !x.s.e.refused(f) || x.answered {
		x.s.reset()
		return
	}
	x.s.say(r.response(x.req))
}

// exchangeMemory is what a request of HTTP/1 under way holds besides its connection:
// records of TLS on both sides, what is searched, and buffers.
const exchangeMemory = 64 << 10

// run judges, sends and answers. True: the connection can take another request.
func (x *exchange) run(ctx context.Context) bool {
	s := x.s
	if err := s.e.quota.Begin(); err != nil {
		x.refuse(err)
		return false
	}
	defer s.e.quota.End()
	// What a verdict's edits hold for this request ends with it, read or not.
	whole, cancel := context.WithCancel(ctx)
	defer cancel()
	v := s.allow(whole, Query{Kind: Request, Authority: x.to, Via: x.via, Method: x.http.Method, Path: x.path(),
		HTTP: &x.http})
	if !v.Allow {
		s.say(refusalOf(v, x.to).response(x.req))
		return false
	}
	if err := s.e.memory.Wait(exchangeMemory, ctx.Done()); err != nil {
		x.refuse(crowded(err))
		return false
	}
	defer s.e.memory.Give(exchangeMemory)
	if v.Protocol != "" { // a proxy's client asked for a port where nobody speaks HTTP
		x.refuse(&formError{status: http.StatusForbidden,
			reason: "rules read the logins to this host by " + v.Protocol + ", and this is HTTP"})
		return false
	}
	err := x.obey(v)
	if err == nil {
		err = x.edit(v.Edits)
	}
	if err != nil {
		return x.failed(err, false)
	}
	if s.lent && !x.repeatable() {
		s.lend() // for another: this request could not be sent twice
		s.hangUp()
	}
	reused := x.reusable()
	if !reused && !x.dial(ctx) {
		return false
	}
	keep, err := x.relay()
	if err != nil && s.lent && x.silent(err) {
		if reused = false; !x.dial(ctx) {
			return false
		}
		keep, err = x.relay()
	}
	s.lent = false
	if errors.Is(err, errUpgraded) {
		x.frames()
		return false
	}
	if err != nil {
		return x.failed(err, reused && s.answered)
	}
	s.answered = true
	f := x.flow()
	s.e.cfg.Journal.Closed(f)
	if !keep {
		s.say(nil)
	}
	return keep
}

// dial connects to the server, or tells why not.
func (x *exchange) dial(ctx context.Context) bool {
	err := x.s.dial(ctx, x.to)
	if err == nil {
		return true
	}
	x.status = statusOf(err)
	f := x.s.dialFailed(x.flow(), err)
	x.s.say(f.undialed(err).response(x.req))
	return false
}

// silent reports whether the server ended the connection without a word of an answer.
func (x *exchange) silent(err error) bool {
	return errors.Is(err, errUpstream) && !x.ended.Load() && !x.answered && !x.heard && len(x.s.up.Held()) == 0 &&
		x.s.killed() == nil
}

// obey is what a verdict changes of every request.
func (x *exchange) obey(v Verdict) error {
	x.verdict = v
	x.most, x.over = x.s.e.bound(v, x.req.Length)
	x.use = x.s.e.quota.Host(x.to.Host())
	if x.most > 0 && x.req.Length > x.most {
		return x.over
	}
	if err := x.s.e.quota.Fits(x.use, x.req.Length); err != nil {
		return err
	}
	if v.Inspect && x.http.BadPath == nil && x.target != "*" {
		_, _, query := strings.Cut(x.target, "?")
		x.target = x.http.Path.Wire()
		if query {
			x.target += "?" + x.http.Query
		}
	}
	return nil
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

// failed ends an exchange that broke.
func (x *exchange) failed(err error, reused bool) bool {
	_, syntax := errors.AsType[*wire.SyntaxError](err)
	_, form := errors.AsType[*formError](err)
	_, edit := errors.AsType[*Refused](err)
	if edit || (syntax || form) && !errors.Is(err, errUpstream) {
		x.refuse(err) // the request's body
		return false
	}
	f := x.flow()
	f.Reason = "connection broken"
	switch {
	case x.s.killed() != nil:
		f.Reason = x.s.killed().Error()
	case errors.Is(err, errUpstream):
		f.Reason = err.Error()
	}
	switch {
	case x.answered, x.s.killed() != nil, !errors.Is(err, errUpstream),
		// A kept connection that the server closed as we used it: the program
		// meets that without us too, and knows whether to try again.
		reused && errors.Is(err, io.EOF):
		x.s.e.cfg.Journal.Closed(f)
		x.s.reset()
	default:
		f.Status = http.StatusBadGateway
		x.s.e.cfg.Journal.Closed(f)
		x.s.say(refusal{Status: f.Status, Host: x.to.Host(), Port: x.to.Port(), Reason: f.Reason}.response(x.req))
	}
	return false
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
