package http2

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"cloister/egress/internal/ahead"
	"cloister/egress/internal/errtext"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/request"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/stream"
	"cloister/egress/verdict"
)

// A message is one request with its answer in HTTP/2, on a stream of its own: a codec.
type message struct {
	request.Request

	d        *duplex
	w        *redact.Writer
	r        *http.Request
	head     int64 // bytes
	interims int
	fields   http.Header     // of the request, as it is sent on
	sent     *meter          // the program's body, counted
	out      *editedBody     // what goes up instead of the program's body
	ahead    *ahead.Reader   // the program's body, once its beginning was looked at
	seen     *request.Looked // what was looked at
	resp     *http.Response  // the answer
}

// newMessage is a request that begins now.
func (d *duplex) newMessage(w *redact.Writer, r *http.Request) *message {
	s := d.s
	m := &message{d: d, w: w, r: r, Request: request.Request{Stream: s, Start: time.Now(), To: s.Target, Via: s.Via,
		Method: r.Method, Length: r.ContentLength}}
	m.Codec, m.Once = m, new(verdict.Once)
	return m
}

// hold takes what the stream holds, however it is answered. Where there is only as much as
// a refusal needs, full is that; where there is none it is broken off.
func (m *message) hold() (held int64, full error) {
	e := m.Stream.Session
	err := e.Memory.Take(streamMemory)
	if err == nil {
		return streamMemory, nil
	}
	if e.Memory.Take(refusalMemory) != nil {
		e.Full(err.Error())
		panic(http.ErrAbortHandler)
	}
	return refusalMemory, request.Crowded(err)
}

// Message is the stream under its edits.
func (m *message) Message() *verdict.Message {
	m.prepare()
	return verdict.NewMessage(verdict.Message{Authority: m.To, Secure: true, Method: m.Method, Path: m.Path,
		Query: m.HTTP.Query}, listed(m.fields), m.body(), m.Length)
}

// Pass gives the program the answer as it comes.
func (m *message) Pass(e *verdict.Message) error {
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
	m.Answered = true
	buf := m.Stream.Session.Buffers.Get()
	defer m.Stream.Session.Buffers.Put(buf)
	if resp.ContentLength != 0 {
		_ = m.w.Flush() // where it fails the next write does
	}
	for {
		n, err := body.Read(buf[:])
		if n > 0 {
			m.Down += int64(n)
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

// End lets go of the answer, and says whose fault it is that the request broke.
func (m *message) End(err error) error {
	if m.resp != nil {
		_ = m.resp.Body.Close() // nothing more is wanted of it
	}
	if m.sent != nil {
		m.Up = m.sent.n.Load()
	}
	if err == nil {
		return nil
	}
	if m.out != nil && m.out.failed() != nil {
		err = m.out.failed()
	}
	if _, edit := errors.AsType[*verdict.Refused](err); edit {
		return err
	}
	if m.sent != nil && m.sent.failed() != nil {
		err = m.sent.failed()
	}
	if request.Refuses(err) {
		return err
	}
	// A body that breaks the protocol breaks off before the context of its stream ends.
	gone := m.r.Context().Err() != nil || m.sent != nil && m.sent.lost.Load()
	cause := m.Stream.Conns.Killed()
	b := &request.Broken{Reason: "the server's answer: the stream broke", Silent: gone}
	if !gone && cause == nil && m.resetGRPC(err) {
		b.Handled = true
		return b
	}
	switch {
	case cause != nil:
		b.Reason = cause.Error()
	case gone:
		b.Reason = "the program ended the request"
	case errors.Is(err, context.Canceled):
		b.Reason = stream.ErrNoLonger.Error()
	case errors.Is(err, request.ErrServer):
		b.Reason = err.Error()
	}
	return b
}

// Refuse answers the program, or resets the stream: half an answer must not look whole.
func (m *message) Refuse(r *refusal.Refusal) {
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
		return // the sender reads it, or is not there, or will not come
	}
	if m.w.Flush() == nil && m.w.SetReadDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = io.Copy(io.Discard, m.r.Body) // not read for its content
	}
}

func (m *message) trailers(h http.Header) http.Header {
	if len(m.Verdict.Edits) == 0 {
		return h
	}
	return mapped(verdict.EditTrailers(m.Verdict.Edits, listed(h)))
}
