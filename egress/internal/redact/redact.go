// Package redact is the program's end of a connection whose messages are read.
//
// Promise: whatever is written to the program by it was searched for the values of the
// session's secrets, as they are when it is written: in HTTP/1 each byte of heads,
// phrases, bodies, trailers, frames and refusals, in HTTP/2 each field's name and value
// and each byte of a body. A field whose name has a value in it is not passed on. The
// connection below, and the writer of an HTTP/2 library, are in no exported field.
//
// A value that the server spreads over several writes is found by a reader of the
// message (secret/inject holds back what may begin one); here only what is still to come
// can be taken out.
//
// Most readers want [Client], or [Handler] for HTTP/2.
package redact

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/secret"
)

// Values gives what must not reach the program, as of now; nil for nothing.
type Values func() *secret.Scrubber

// A Conn is a connection to the program that writes nothing unsearched.
type Conn struct {
	inner  net.Conn
	values Values

	mu     sync.Mutex
	by     *secret.Scrubber
	stream *secret.Scrub
}

// Client is c as those that answer the program have it: c itself where the session has no secrets.
func Client(c net.Conn, values Values) net.Conn {
	if _, is := c.(*Conn); is || values == nil {
		return c
	}
	return &Conn{inner: c, values: values}
}

// Opaque is the connection of a program that asked a proxy for a tunnel: from here on
// bytes pass in it that this border does not read, or TLS that it opens.
func Opaque(c net.Conn) net.Conn {
	if own, is := c.(*Conn); is {
		return own.inner
	}
	return c
}

// Write writes p without the values, in one write.
func (c *Conn) Write(p []byte) (int, error) {
	if n, err := c.inner.Write(c.clean(p)); err != nil {
		return n, err
	}
	return len(p), nil
}

func (c *Conn) clean(p []byte) []byte {
	by := c.values()
	c.mu.Lock()
	defer c.mu.Unlock()
	if by != c.by {
		if c.by, c.stream = by, nil; by != nil {
			c.stream = by.Stream()
		}
	}
	if c.stream == nil {
		return p
	}
	return c.stream.Pass(p)
}

// Read reads what the program sends.
func (c *Conn) Read(p []byte) (int, error) {
	return c.inner.Read(p)
}

// Close closes the connection.
func (c *Conn) Close() error {
	return c.inner.Close()
}

// CloseWrite ends what is written, and leaves what is read.
func (c *Conn) CloseWrite() error {
	if h, ok := c.inner.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.inner.Close()
}

// LocalAddr is that of the connection.
func (c *Conn) LocalAddr() net.Addr { return c.inner.LocalAddr() }

// RemoteAddr is that of the connection.
func (c *Conn) RemoteAddr() net.Addr { return c.inner.RemoteAddr() }

// SetDeadline is that of the connection.
func (c *Conn) SetDeadline(t time.Time) error {
	return c.inner.SetDeadline(t)
}

// SetReadDeadline is that of the connection.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.inner.SetReadDeadline(t)
}

// SetWriteDeadline is that of the connection.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.inner.SetWriteDeadline(t)
}

// NetConn is what lies below, as in crypto/tls: for callers that reset or wait, not for writers.
func (c *Conn) NetConn() net.Conn { return c.inner }

// A Writer answers one request of HTTP/2. Fields that are set wait in a header of its
// own until they are searched.
type Writer struct {
	to     http.ResponseWriter
	values Values
	header http.Header
	sent   bool // the final head
	by     *secret.Scrubber
	stream *secret.Scrub
}

// Handler serves requests with f, which has no other way to the program.
func Handler(values Values, f func(*Writer, *http.Request)) http.Handler {
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		w := &Writer{to: to, values: values, header: http.Header{}}
		f(w, r)
		if w.sent { // trailers are set after the body
			w.copyFields(func(name string) bool { return strings.HasPrefix(name, http.TrailerPrefix) })
		}
	})
}

// Header are the fields of the next head, and of the trailer.
func (w *Writer) Header() http.Header { return w.header }

// WriteHeader sends a head, an interim one too.
func (w *Writer) WriteHeader(code int) {
	if !w.sent {
		w.copyFields(nil)
	}
	w.to.WriteHeader(code)
	if code < 200 {
		clear(w.to.Header())
		return
	}
	w.sent = true
}

// copyFields searches the fields that are wanted, nil for all, and hands them on.
func (w *Writer) copyFields(wanted func(name string) bool) {
	by, to := w.now(), w.to.Header()
	for name, list := range w.header {
		if wanted != nil && !wanted(name) {
			continue
		}
		if by == nil {
			to[name] = list
			continue
		}
		if by.InName(name) {
			continue
		}
		clean := slices.Clone(list) // nil stays nil: a field that the library shall not add
		for i, value := range clean {
			clean[i], _ = by.Text(value)
		}
		to[name] = clean
	}
}

func (w *Writer) now() *secret.Scrubber {
	if w.values == nil {
		return nil
	}
	return w.values()
}

// Write sends p of the body without the values.
func (w *Writer) Write(p []byte) (int, error) {
	if !w.sent {
		w.WriteHeader(http.StatusOK)
	}
	if by := w.now(); by != w.by {
		if w.by, w.stream = by, nil; by != nil {
			w.stream = by.Stream()
		}
	}
	out := p
	if w.stream != nil {
		out = w.stream.Pass(p)
	}
	if n, err := w.to.Write(out); err != nil {
		return n, err
	}
	return len(p), nil
}

// Flush sends what was written.
func (w *Writer) Flush() error {
	return http.NewResponseController(w.to).Flush()
}

// SetReadDeadline bounds the reading of the request's body.
func (w *Writer) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(w.to).SetReadDeadline(t)
}
