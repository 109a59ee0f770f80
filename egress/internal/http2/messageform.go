package http2

import (
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/budget"
)

// read finds the readings of the stream's fields, and refuses what cannot be judged.
func (m *message) read() error {
	r := m.r
	m.HTTP.To, m.HTTP.Method, m.HTTP.Header, m.HTTP.Body = m.To, r.Method, fieldsOf(r.Header), r.ContentLength != 0
	if m.HTTP.Body {
		m.HTTP.Look = m.look
	}
	m.HTTP.Target(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			m.HTTP.Note(name, value)
		}
	}
	m.HTTP.Read()
	if m.Path = m.HTTP.Raw; m.HTTP.BadPath == nil {
		m.Path = m.HTTP.Path.Wire()
	}
	err := m.checkForm()
	// What its fields and its body take is held from before a person is asked: both have
	// come by then.
	if m.Early = 2 * m.head; m.HTTP.Body {
		m.Early += int64(budget.MostFrame)
	}
	return err
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
		if got != s.Target {
			return &verdict.Form{Status: 421, Reason: ":authority is not the name that was connected to",
				Detail: ":authority " + dial.Quote(host)}
		}
	}
	if m.HTTP.BadPath != nil && (m.Path == "" || m.Path[0] != '/' || strings.HasPrefix(m.Path, "//")) && m.Path != "*" {
		return &verdict.Form{Status: 400, Reason: m.HTTP.BadPath.Error()}
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
