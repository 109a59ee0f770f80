package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http2"

	"cloister/egress/internal/request"
	"cloister/egress/verdict"
)

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
	q := m.Stream.Session.Quota
	m.fields = h
	m.sent = &meter{ReadCloser: m.r.Body, most: m.Most, over: m.Over, trailer: m.r.Trailer,
		spend: func(n int64) error { return q.Spend(m.Use, n) }}
}

// body is what the program sends, counted.
func (m *message) body() io.ReadCloser {
	if m.Length == 0 {
		return http.NoBody
	}
	return m.sent
}

// Send passes the stream on, and waits for the answer's head.
func (m *message) Send(ctx context.Context, edited *verdict.Message) (*verdict.Message, error) {
	if err := m.Stream.Session.Quota.Head(m.Use, m.head); err != nil {
		return nil, err
	}
	m.prepare()
	out := m.outgoing(ctx, edited)
	for again := out.Body == http.NoBody && request.Repeatable(out.Method); ; again = false {
		conn, err := m.d.upstream()
		if err != nil {
			return nil, &request.Undialed{Err: err}
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
		if m.Status = resp.StatusCode; m.Status < 200 || m.Status > 599 {
			return nil, fmt.Errorf("%w: a status that is no number from 200 to 599", request.ErrServer)
		}
		if len(m.Verdict.Edits) == 0 {
			return nil, nil // no edit wants to see the answer
		}
		return verdict.NewMessage(verdict.Message{Authority: m.To, Secure: true, Method: m.Method, Path: m.Path,
			Status: resp.StatusCode}, listed(resp.Header), resp.Body, resp.ContentLength), nil
	}
}

// outgoing is the stream as it is sent on: the one place where it is another than
// the program's.
func (m *message) outgoing(ctx context.Context, e *verdict.Message) *http.Request {
	out := &http.Request{
		Method: m.Method, Host: verdict.HostField(m.To, 443), Header: m.fields, ContentLength: m.Length, Body: m.body(),
		Trailer: m.r.Trailer,
		URL: &url.URL{Scheme: "https", Host: m.To.String(), Opaque: m.Path, RawQuery: m.HTTP.Query,
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
	if m.interims++; m.interims > request.MaxInterim || code == http.StatusSwitchingProtocols {
		return fmt.Errorf("%w: too many interim responses, or one of HTTP/1.1 alone", request.ErrServer)
	}
	if code == http.StatusContinue || len(m.Verdict.Edits) > 0 {
		return nil // the program's library has it from us; what no edit has seen is not passed on
	}
	maps.Copy(m.w.Header(), http.Header(h))
	m.w.WriteHeader(code)
	clear(m.w.Header())
	return nil
}
