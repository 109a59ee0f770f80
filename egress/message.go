package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"

	"cloister/egress/internal/ahead"
	"cloister/egress/internal/dial"
	"cloister/egress/internal/errtext"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/verdict"
	"cloister/egress/internal/wire"
	"cloister/internal/authority"
	"cloister/internal/budget"
)

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
	return &verdict.Form{Status: http.StatusServiceUnavailable, Reason: err.Error(), Retry: time.Second}
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
		return &verdict.Form{Status: 405, Reason: "CONNECT to a server that is no proxy"}
	}
	head, err := wire.Tidy(m.r.Header)
	if err := errors.Join(err, wire.CheckMethod(m.r.Method), wire.CheckTarget(m.r.RequestURI)); err != nil {
		return &verdict.Form{Status: 400, Reason: err.Error()}
	}
	m.head = head + int64(len(m.r.Method)+len(m.r.RequestURI))
	if err := m.checkLength(); err != nil {
		return err
	}
	for _, host := range append(m.r.Header["Host"], m.r.Host) {
		got, err := authority.ParseHostPort(host, 443)
		if err != nil {
			return &verdict.Form{Status: 400, Reason: ":authority: " + err.Error()}
		}
		if got != s.target {
			return &verdict.Form{Status: 421, Reason: ":authority is not the name that was connected to",
				Detail: ":authority " + dial.Quote(host)}
		}
	}
	if m.http.BadPath != nil && (m.path == "" || m.path[0] != '/' || strings.HasPrefix(m.path, "//")) && m.path != "*" {
		return &verdict.Form{Status: 400, Reason: m.http.BadPath.Error()}
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
		return &verdict.Form{Status: 400, Reason: "content-length is not one number",
			Detail: "content-length " + dial.Quote(strings.Join(said, ", "))}
	}
	if n > 0 && (m.r.Body == nil || m.r.Body == http.NoBody || m.r.ContentLength == 0) {
		return &verdict.Form{Status: 400, Reason: "content-length speaks of a body, and there is none"}
	}
	return nil
}

// message is the stream under its edits.
func (m *message) message() *Message {
	m.prepare()
	return verdict.NewMessage(Message{Authority: m.to, Secure: true, Method: m.method, Path: m.path, Query: m.http.Query},
		listed(m.fields), m.body(), m.length)
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
		return verdict.NewMessage(Message{Authority: m.to, Secure: true, Method: m.method, Path: m.path,
			Status: resp.StatusCode}, listed(resp.Header), resp.Body, resp.ContentLength), nil
	}
}

// outgoing is the stream as it is sent on: the one place where it is another than
// the program's.
func (m *message) outgoing(ctx context.Context, e *Message) *http.Request {
	out := &http.Request{
		Method: m.method, Host: verdict.HostField(m.to, 443), Header: m.fields, ContentLength: m.length, Body: m.body(),
		Trailer: m.r.Trailer,
		URL: &url.URL{Scheme: "https", Host: m.to.String(), Opaque: m.path, RawQuery: m.http.Query,
			ForceQuery: strings.HasSuffix(m.r.RequestURI, "?")},
	}
	if e != nil {
		// No edit sees what is behind the body.
		out.Trailer, out.URL.RawQuery, out.Header = nil, e.Query, mapped(e.Header.Fields())
		if e.Replaced() || m.sent.n.Load() > 0 {
			m.out = &editedBody{Reader: e.Body(), Closer: m.sent}
			if out.Body, out.ContentLength = m.out, e.Length(); !e.Replaced() {
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
		body = e.Body()
		if resp.Header = mapped(e.Header.Fields()); e.Replaced() {
			if resp.Header.Del("Content-Length"); e.Length() >= 0 {
				resp.Header.Set("Content-Length", strconv.FormatInt(e.Length(), 10))
			}
			resp.ContentLength = e.Length()
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
	// A body that breaks the protocol breaks off before the context of its stream ends.
	gone := m.r.Context().Err() != nil || m.sent != nil && m.sent.lost.Load()
	cause := m.s.conns.killed()
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
func (m *message) refuse(r *refusal.Refusal) {
	if r == nil {
		panic(http.ErrAbortHandler)
	}
	m.answer(*r)
}

// answer tells the program a refusal.
func (m *message) answer(r refusal.Refusal) {
	if isGRPC(m.r.Header) {
		m.answerGRPC(r)
		return
	}
	kind, body := r.Body(listed(m.r.Header))
	h := m.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if wait := errtext.RetryAfter(r.Retry); wait != "" {
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

func (m *message) trailers(h http.Header) http.Header {
	if len(m.verdict.Edits) == 0 {
		return h
	}
	return mapped(verdict.EditTrailers(m.verdict.Edits, listed(h)))
}
