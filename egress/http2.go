package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"cloister/egress/internal/ahead"
	"cloister/egress/internal/dial"
	"cloister/egress/internal/errtext"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
	"cloister/internal/budget"
)

// protoHTTP2 is HTTP/2 in the words of ALPN.
const protoHTTP2 = "h2"

// mostStreams bounds the requests of one connection that are under way at once, and
// mostConns the connections to its server that they are spread over.
const (
	mostStreams = 100
	mostConns   = 16
)

// The windows of HTTP/2: how much of a body comes before it is wanted, of one stream and of
// all on a connection. Libraries allow a stream 4 MiB, and a connection 1 GiB.
const (
	streamWindow = 256 << 10
	connWindow   = 1 << 20
)

// streamMemory is what a request of HTTP/2 under way holds besides: the stacks of five
// goroutines, its fields and buffers.
const streamMemory = 80 << 10

// refusalMemory is what a stream holds that is refused at once: its program may not read
// why.
const refusalMemory = 24 << 10

// newTransport speaks HTTP/2 to servers. Its windows can be set by way of one for HTTP/1 only.
func newTransport() *http2.Transport {
	one := &http.Transport{HTTP2: &http.HTTP2Config{MaxReceiveBufferPerConnection: connWindow,
		MaxReceiveBufferPerStream: streamWindow}}
	t, err := http2.ConfigureTransports(one)
	if err != nil {
		panic("egress: " + err.Error()) // of a transport that has HTTP/2 already
	}
	t.DisableCompression, t.MaxHeaderListSize = true, wire.MaxHead
	return t
}

// A duplex is a connection that speaks HTTP/2 on both sides. Each stream is
// judged for itself; those that are allowed share one connection to the server.
type duplex struct {
	s         *stream
	ctx       context.Context
	transport *http2.Transport

	door    sync.Mutex
	shut    bool // no further stream is served
	serving sync.WaitGroup

	mu    sync.Mutex
	conns []*http2.ClientConn // more than one where the server takes few streams on each
}

// serveHTTP2 serves the streams of a connection until it ends.
func (s *stream) serveHTTP2(ctx context.Context) {
	conn, ok := redact.Opaque(s.client.Conn).(*tls.Conn)
	if !ok {
		s.refuseForm("HTTP/2 without TLS")
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &duplex{s: s, ctx: ctx, transport: newTransport()}
	if s.up != nil {
		// else the first request dials anew
		if conn, err := d.transport.NewClientConn(s.e.memory.Conn(s.up.Conn, budget.Client)); err == nil {
			d.conns = append(d.conns, conn)
		}
	}
	server := &http2.Server{
		MaxConcurrentStreams: mostStreams, IdleTimeout: s.e.limits.Idle, MaxReadFrameSize: 16 << 10,
		MaxUploadBufferPerConnection: connWindow, MaxUploadBufferPerStream: streamWindow,
	}
	heard := &heard{Conn: conn}
	program := s.e.memory.Conn(heard, budget.Server)
	server.ServeConn(program, &http2.ServeConnOpts{
		Context: ctx,
		BaseConfig: &http.Server{MaxHeaderBytes: wire.MaxHead,
			ErrorLog: slog.NewLogLogger(s.e.log.Handler(), slog.LevelDebug)},
		Handler: redact.Handler(s.e.cfg.Redact, d.serve),
	})
	cancel()
	_ = program.Close()
	s.closeAll()
	d.closeUp()
	d.door.Lock()
	d.shut = true
	d.door.Unlock()
	d.serving.Wait()
	s.alert = heard.alert()
	s.tellEnd()
}

// closeUp ends the connections to the server, whose sockets are closed: what waits for
// memory to read their answers would hold what it has until it gives up.
func (d *duplex) closeUp() {
	d.mu.Lock()
	conns := slices.Clone(d.conns)
	d.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // of a socket that is closed
	}
}

// heard keeps with which alert a program ended TLS, for a library that reads it.
type heard struct {
	*tls.Conn
	word atomic.Pointer[string]
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if err != nil {
		word := dial.AlertOf(err)
		h.word.Store(&word)
	}
	return n, err
}

// Ended reports whether the program has ended the connection: it is a budget.Ender.
func (h *heard) Ended() bool { return sock.Ended(sock.Bare(h.Conn)) }

func (h *heard) alert() string {
	if word := h.word.Load(); word != nil {
		return *word
	}
	return ""
}

// upstream is a connection for one more request, which it has a place for. One that
// takes no more at all is left to end what is under way on it.
func (d *duplex) upstream() (*http2.ClientConn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		if conn.ReserveNewRequest() {
			return conn, nil
		}
	}
	d.conns = slices.DeleteFunc(d.conns, func(c *http2.ClientConn) bool { return c.State().Closed || c.State().Closing })
	if len(d.conns) >= mostConns {
		return nil, &dial.Error{Status: 503, Words: d.s.target.String() + " takes fewer requests at once"}
	}
	c, _, err := d.s.e.dialer.Dial(d.ctx, d.s.target)
	if err != nil {
		return nil, err
	}
	if err := d.s.attach(c); err != nil {
		return nil, err
	}
	conn, err := d.open(tracked{c, d.s})
	if err != nil {
		_ = tracked{c, d.s}.Close() // nothing was said on it
		return nil, err
	}
	conn.ReserveNewRequest()
	d.conns = append(d.conns, conn)
	return conn, nil
}

// open begins HTTP/2 on a new connection.
func (d *duplex) open(c net.Conn) (*http2.ClientConn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.s.e.limits.Handshake)
	defer cancel()
	opened, err := d.s.e.upstream.Handshake(ctx, c, d.s.target, []string{protoHTTP2})
	if err != nil {
		return nil, err
	}
	broken := &dial.Error{Status: 502, Words: "TLS with " + d.s.target.String() + ": it no longer speaks HTTP/2"}
	if opened.ConnectionState().NegotiatedProtocol != protoHTTP2 {
		return nil, broken
	}
	conn, err := d.transport.NewClientConn(d.s.e.memory.Conn(opened, budget.Client))
	if err == nil {
		err = conn.Ping(ctx) // before its answer come the settings: how many streams it takes
	}
	if err != nil {
		broken.Err = err
		return nil, broken
	}
	return conn, nil
}

// A message is one request with its answer in HTTP/2, on a stream of its own: a codec.
type message struct {
	request

	d        *duplex
	w        *redact.Writer
	r        *http.Request
	head     int64 // bytes
	interims int
	fields   http.Header    // of the request, as it is sent on
	sent     *meter         // the program's body, counted
	out      *editedBody    // what goes up instead of the program's body
	ahead    *ahead.Reader  // the program's body, once its beginning was looked at
	seen     *looked        // what was looked at
	resp     *http.Response // the answer
}

// enter counts a stream in. One that the library begins to serve as the connection
// ends is too late: no one would wait for it.
func (d *duplex) enter() bool {
	d.door.Lock()
	defer d.door.Unlock()
	if !d.shut {
		d.serving.Add(1)
	}
	return !d.shut
}

func (d *duplex) serve(w *redact.Writer, r *http.Request) {
	if !d.enter() {
		panic(http.ErrAbortHandler)
	}
	defer d.serving.Done()
	m := d.newMessage(w, r)
	held, full := m.hold()
	defer d.s.e.memory.Give(held)
	err := m.read()
	if err == nil {
		err = full
	}
	defer func() { m.ahead.End() }()
	m.serve(r.Context(), err)
	d.s.bodiesDown.Add(m.down)
	d.s.bodiesUp.Add(m.up)
}

// newMessage is a request that begins now.
func (d *duplex) newMessage(w *redact.Writer, r *http.Request) *message {
	s := d.s
	m := &message{d: d, w: w, r: r, request: request{s: s, start: time.Now(), to: s.target, via: s.via, method: r.Method,
		length: r.ContentLength}}
	m.codec, m.once = m, new(Once)
	return m
}

// read finds the readings of the stream's fields, and refuses what cannot be judged.
func (m *message) read() error {
	r := m.r
	m.http.To, m.http.Method, m.http.Header, m.http.Body = m.to, r.Method, fieldsOf(r.Header), r.ContentLength != 0
	if m.http.Body {
		m.http.Look = m.look
	}
	m.http.Target(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			m.http.Note(name, value)
		}
	}
	m.http.Read()
	if m.path = m.http.Raw; m.http.BadPath == nil {
		m.path = m.http.Path.Wire()
	}
	err := m.checkForm()
	// What its fields and its body take is held from before a person is asked: both have
	// come by then.
	if m.early = 2 * m.head; m.http.Body {
		m.early += int64(budget.MostFrame)
	}
	return err
}

// hold takes what the stream holds, however it is answered. Where there is only as much as
// a refusal needs, full is that; where there is none it is broken off.
func (m *message) hold() (held int64, full error) {
	e := m.s.e
	err := e.memory.Take(streamMemory)
	if err == nil {
		return streamMemory, nil
	}
	if e.memory.Take(refusalMemory) != nil {
		e.full(err.Error())
		panic(http.ErrAbortHandler)
	}
	return refusalMemory, crowded(err)
}

// crowded refuses what there is no memory for.
func crowded(err error) error {
	return &formError{status: http.StatusServiceUnavailable, reason: err.Error(), retry: time.Second}
}

func fieldsOf(h http.Header) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for name, values := range h {
			for _, value := range values {
				if !yield(name, value) {
					return
				}
			}
		}
	}
}

// checkForm holds a stream to the name that its connection was made to.
func (m *message) checkForm() error {
	s := m.d.s
	if m.r.Method == http.MethodConnect {
		return &formError{status: 405, reason: "CONNECT to a server that is no proxy"}
	}
	head, err := wire.Tidy(m.r.Header)
	if err := errors.Join(err, wire.CheckMethod(m.r.Method), wire.CheckTarget(m.r.RequestURI)); err != nil {
		return &formError{status: 400, reason: err.Error()}
	}
	m.head = head + int64(len(m.r.Method)+len(m.r.RequestURI))
	if err := m.checkLength(); err != nil {
		return err
	}
	for _, host := range append(m.r.Header["Host"], m.r.Host) {
		got, err := authority.ParseHostPort(host, 443)
		if err != nil {
			return &formError{status: 400, reason: ":authority: " + err.Error()}
		}
		if got != s.target {
			return &formError{status: 421, reason: ":authority is not the name that was connected to",
				detail: ":authority " + quote(host)}
		}
	}
	if m.http.BadPath != nil && (m.path == "" || m.path[0] != '/' || strings.HasPrefix(m.path, "//")) && m.path != "*" {
		return &formError{status: 400, reason: m.http.BadPath.Error()}
	}
	return nil
}

// checkLength refuses a length that is none, or of a body that is not there: RFC 9113
// 8.1.1 calls such a request malformed, and a server behind would wait for more.
func (m *message) checkLength() error {
	said, ok := m.r.Header["Content-Length"]
	if !ok {
		return nil
	}
	n, err := strconv.ParseUint(said[0], 10, 63)
	if len(said) > 1 || err != nil || strings.Trim(said[0], "0123456789") != "" {
		return &formError{status: 400, reason: "content-length is not one number",
			detail: "content-length " + quote(strings.Join(said, ", "))}
	}
	if n > 0 && (m.r.Body == nil || m.r.Body == http.NoBody || m.r.ContentLength == 0) {
		return &formError{status: 400, reason: "content-length speaks of a body, and there is none"}
	}
	return nil
}

func (s *stream) enterStream(o *openStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.streams, o) {
		s.streams = append(s.streams, o)
	}
}

func (s *stream) leaveStream(o *openStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.streams, o); i >= 0 {
		s.streams = slices.Delete(s.streams, i, i+1)
	}
}

// recheckStreams asks about each request under way again.
func (s *stream) recheckStreams(ctx context.Context) {
	s.mu.Lock()
	open := slices.Clone(s.streams)
	s.mu.Unlock()
	for _, o := range open {
		q := o.query
		q.Kind = Recheck
		if v := s.e.cfg.Decider.Decide(ctx, q); !v.Allow {
			o.end(s, v)
		}
	}
}

// message is the stream under its edits.
func (m *message) message() *Message {
	m.prepare()
	return &Message{
		Authority: m.to, Secure: true, Method: m.method, Path: m.path, Query: m.http.Query,
		Header: Header{fields: listed(m.fields)}, body: m.body(), length: m.length,
	}
}

// prepare makes the stream's fields and its body what is sent on.
func (m *message) prepare() {
	if m.sent != nil {
		return
	}
	h := m.r.Header.Clone()
	for name := range hopNames {
		h.Del(name)
	}
	if slices.Contains(m.r.Header["Te"], "trailers") {
		h.Set("Te", "trailers")
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // none, where the transport would add its own
	}
	q := m.s.e.quota
	m.fields = h
	m.sent = &meter{ReadCloser: m.r.Body, most: m.most, over: m.over, trailer: m.r.Trailer,
		spend: func(n int64) error { return q.Spend(m.use, n) }}
}

// body is what the program sends, counted.
func (m *message) body() io.ReadCloser {
	if m.length == 0 {
		return http.NoBody
	}
	return m.sent
}

// send passes the stream on, and waits for the answer's head.
func (m *message) send(ctx context.Context, edited *Message) (*Message, error) {
	if err := m.s.e.quota.Head(m.use, m.head); err != nil {
		return nil, err
	}
	m.prepare()
	out := m.outgoing(ctx, edited)
	for again := out.Body == http.NoBody && repeatable(out.Method); ; again = false {
		conn, err := m.d.upstream()
		if err != nil {
			return nil, &undialed{err}
		}
		resp, err := conn.RoundTrip(out) //nolint:bodyclose // end closes it
		_, reset := errors.AsType[http2.StreamError](err)
		if err != nil && again && !reset && ctx.Err() == nil {
			continue // the connection ended as it was used: GOAWAY, or no place on it by now
		}
		if err != nil {
			return nil, err
		}
		m.resp = resp
		if m.status = resp.StatusCode; m.status < 200 || m.status > 599 {
			return nil, fmt.Errorf("%w: a status that is no number from 200 to 599", errUpstream)
		}
		if len(m.verdict.Edits) == 0 {
			return nil, nil // no edit wants to see the answer
		}
		return &Message{
			Authority: m.to, Secure: true, Method: m.method, Path: m.path, Status: resp.StatusCode,
			Header: Header{fields: listed(resp.Header)}, body: resp.Body, length: resp.ContentLength,
		}, nil
	}
}

// outgoing is the stream as it is sent on: the one place where it is another than
// the program's.
func (m *message) outgoing(ctx context.Context, e *Message) *http.Request {
	out := &http.Request{
		Method: m.method, Host: hostField(m.to, 443), Header: m.fields, ContentLength: m.length, Body: m.body(),
		Trailer: m.r.Trailer,
		URL: &url.URL{Scheme: "https", Host: m.to.String(), Opaque: m.path, RawQuery: m.http.Query,
			ForceQuery: strings.HasSuffix(m.r.RequestURI, "?")},
	}
	if e != nil {
		// No edit sees what is behind the body.
		out.Trailer, out.URL.RawQuery, out.Header = nil, e.Query, mapped(e.Header.fields)
		if e.replaced || m.sent.n.Load() > 0 {
			m.out = &editedBody{Reader: e.body, Closer: m.sent}
			if out.Body, out.ContentLength = m.out, e.length; !e.replaced {
				out.ContentLength = -1
			}
		}
	}
	return out.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: m.interim}))
}

// hopNames belong to one connection, or are written anew.
var hopNames = map[string]bool{"Host": true, "Te": true, "Expect": true, "Content-Length": true,
	"Proxy-Authorization": true}

// interim passes 103 and its like.
func (m *message) interim(code int, h textproto.MIMEHeader) error {
	if m.interims++; m.interims > maxInterim || code == http.StatusSwitchingProtocols {
		return fmt.Errorf("%w: too many interim responses, or one of HTTP/1.1 alone", errUpstream)
	}
	if code == http.StatusContinue || len(m.verdict.Edits) > 0 {
		return nil // the program's library has it from us; what nobody has edited is not passed on
	}
	maps.Copy(m.w.Header(), http.Header(h))
	m.w.WriteHeader(code)
	clear(m.w.Header())
	return nil
}

// pass gives the program the answer as it comes.
func (m *message) pass(e *Message) error {
	resp, body := m.resp, io.Reader(m.resp.Body)
	if e != nil {
		body = e.body
		if resp.Header = mapped(e.Header.fields); e.replaced {
			if resp.Header.Del("Content-Length"); e.length >= 0 {
				resp.Header.Set("Content-Length", strconv.FormatInt(e.length, 10))
			}
			resp.ContentLength = e.length
		}
	}
	h := m.w.Header()
	maps.Copy(h, resp.Header)
	for _, name := range []string{"Date", "Content-Type"} {
		if _, ok := h[name]; !ok {
			h[name] = nil // none, where the library would add its own
		}
	}
	m.w.WriteHeader(resp.StatusCode)
	m.answered = true
	buf := m.s.e.buffers.Get()
	defer m.s.e.buffers.Put(buf)
	if resp.ContentLength != 0 {
		_ = m.w.Flush() // where it fails the next write does
	}
	for {
		n, err := body.Read(buf[:])
		if n > 0 {
			m.down += int64(n)
			if _, werr := m.w.Write(buf[:n]); werr != nil {
				return errors.Join(sock.ErrWrite, werr)
			}
			if err == nil {
				_ = m.w.Flush()
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	for name, values := range m.trailers(resp.Trailer) {
		h[http.TrailerPrefix+name] = values
	}
	return nil
}

// end lets go of the answer, and says whose fault it is that the request broke.
func (m *message) end(err error) error {
	if m.resp != nil {
		_ = m.resp.Body.Close() // nothing more is wanted of it
	}
	if m.sent != nil {
		m.up = m.sent.n.Load()
	}
	if err == nil {
		return nil
	}
	if m.out != nil && m.out.failed() != nil {
		err = m.out.failed()
	}
	if _, edit := errors.AsType[*Refused](err); edit {
		return err
	}
	if m.sent != nil && m.sent.failed() != nil {
		err = m.sent.failed()
	}
	if refuses(err) {
		return err
	}
	gone, cause := m.r.Context().Err() != nil, m.s.killed()
	b := &broken{reason: "the server's answer: the stream broke", silent: gone}
	if !gone && cause == nil && m.resetGRPC(err) {
		b.handled = true
		return b
	}
	switch {
	case cause != nil:
		b.reason = cause.Error()
	case gone:
		b.reason = "the program ended the request"
	case errors.Is(err, context.Canceled):
		b.reason = errNoLonger.Error()
	case errors.Is(err, errUpstream):
		b.reason = err.Error()
	}
	return b
}

// refuse answers the program, or resets the stream: half an answer must not look whole.
func (m *message) refuse(r *refusal) {
	if r == nil {
		panic(http.ErrAbortHandler)
	}
	m.answer(*r)
}

// answer tells the program a refusal.
func (m *message) answer(r refusal) {
	if isGRPC(m.r.Header) {
		m.answerGRPC(r)
		return
	}
	kind, body := r.body(listed(m.r.Header))
	h := m.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if wait := errtext.RetryAfter(r.retry); wait != "" {
		h.Set("Retry-After", wait)
	}
	m.w.WriteHeader(r.Status)
	if m.r.Method != http.MethodHead {
		_, _ = m.w.Write(body) // the program may have gone
	}
	m.drain()
}

// drain takes the rest of a refused body for a moment, as say does: a stream whose
// body no one reads is reset behind its answer, which some clients (curl 7.88, and so
// git) then take for an answer that broke off.
func (m *message) drain() {
	if m.sent != nil || m.r.ContentLength == 0 || m.r.Header.Get("Expect") != "" && m.ahead == nil {
		return // it is read by who sends it on, or is not there, or will not come
	}
	if m.w.Flush() == nil && m.w.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = io.Copy(io.Discard, m.r.Body) // not read for its content
	}
}

// A meter counts a body and holds it to its bounds.
type meter struct {
	io.ReadCloser
	most  int64
	over  error // of a body that holds more than most
	spend func(int64) error
	n     atomic.Int64
	early
	trailer http.Header // there once from has ended
}

// early keeps why a body ended early: the transport has its own words.
type early struct{ why atomic.Pointer[error] }

func (e *early) end(err error) error {
	e.why.Store(&err)
	return err
}

func (e *early) failed() error {
	if why := e.why.Load(); why != nil {
		return *why
	}
	return nil
}

func (b *meter) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if total := b.n.Add(int64(n)); b.most > 0 && total > b.most {
		return 0, b.end(b.over)
	}
	more := int64(n)
	if errors.Is(err, io.EOF) {
		more += wire.TidyTrailers(b.trailer)
	}
	if more > 0 {
		if err := b.spend(more); err != nil {
			return 0, b.end(err)
		}
	}
	return n, err
}

func (m *message) trailers(h http.Header) http.Header {
	if len(m.verdict.Edits) == 0 {
		return h
	}
	return mapped(editTrailers(m.verdict.Edits, listed(h)))
}

// listed are the fields of h, sorted by name.
func listed(h http.Header) wire.Header {
	var out wire.Header
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			out = append(out, wire.Field{Name: name, Value: value})
		}
	}
	return out
}

func mapped(fields wire.Header) http.Header {
	h := http.Header{}
	for name, value := range fields.All {
		h.Add(name, value)
	}
	return h
}

// An editedBody remembers why it ended: the transport tells its own words.
type editedBody struct {
	io.Reader
	io.Closer
	early
}

func (b *editedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, b.end(err)
	}
	return n, err
}
