// Package http2 serves the requests of connections that speak HTTP/2 on both sides.
//
// Promise: each stream is judged by itself and held to the name of its connection. It
// decides nothing; that and the order of a request's steps is package request.
package http2

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/redact"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/stream"
	"cloister/egress/internal/wire"
	"cloister/internal/budget"
)

// Proto is HTTP/2 in the words of ALPN.
const Proto = "h2"

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
	s         *stream.Stream
	ctx       context.Context
	transport *http2.Transport

	door    sync.Mutex
	shut    bool // no further stream is served
	serving sync.WaitGroup

	mu    sync.Mutex
	conns []*http2.ClientConn // more than one where the server takes few streams on each
}

// Serve serves the streams of a connection until it ends.
func Serve(ctx context.Context, s *stream.Stream) {
	conn, ok := redact.Opaque(s.Client.Conn).(*tls.Conn)
	if !ok {
		s.RefuseForm("HTTP/2 without TLS")
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d := &duplex{s: s, ctx: ctx, transport: newTransport()}
	if s.Server.There() {
		// else the first request dials anew
		if conn, err := d.transport.NewClientConn(s.Session.Memory.Conn(s.Server.Conn, budget.Client)); err == nil {
			d.conns = append(d.conns, conn)
		}
	}
	server := &http2.Server{
		MaxConcurrentStreams: mostStreams, IdleTimeout: s.Session.Limits.Idle, MaxReadFrameSize: 16 << 10,
		MaxUploadBufferPerConnection: connWindow, MaxUploadBufferPerStream: streamWindow,
	}
	heard := &heard{Conn: conn}
	program := s.Session.Memory.Conn(heard, budget.Server)
	server.ServeConn(program, &http2.ServeConnOpts{
		Context: ctx,
		BaseConfig: &http.Server{MaxHeaderBytes: wire.MaxHead,
			ErrorLog: slog.NewLogLogger(s.Session.Log.Handler(), slog.LevelDebug)},
		Handler: redact.Handler(s.Session.Redact, d.serve),
	})
	cancel()
	_ = program.Close()
	s.Conns.Close()
	d.closeUp()
	d.door.Lock()
	d.shut = true
	d.door.Unlock()
	d.serving.Wait()
	s.Client.Alert = heard.alert()
	s.TellEnd()
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
		return nil, &dial.Error{Status: 503, Words: d.s.Target.String() + " takes fewer requests at once"}
	}
	c, _, err := d.s.Session.Dialer.Dial(d.ctx, d.s.Target)
	if err != nil {
		return nil, err
	}
	if err := d.s.Conns.Attach(c); err != nil {
		return nil, err
	}
	conn, err := d.open(d.s.Conns.Track(c))
	if err != nil {
		_ = d.s.Conns.Track(c).Close() // nothing was said on it
		return nil, err
	}
	conn.ReserveNewRequest()
	d.conns = append(d.conns, conn)
	return conn, nil
}

// open begins HTTP/2 on a new connection.
func (d *duplex) open(c net.Conn) (*http2.ClientConn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.s.Session.Limits.Handshake)
	defer cancel()
	opened, err := d.s.Session.TLS.Handshake(ctx, c, d.s.Target, []string{Proto})
	if err != nil {
		return nil, err
	}
	broken := &dial.Error{Status: 502, Words: "TLS with " + d.s.Target.String() + ": it no longer speaks HTTP/2"}
	if opened.ConnectionState().NegotiatedProtocol != Proto {
		return nil, broken
	}
	conn, err := d.transport.NewClientConn(d.s.Session.Memory.Conn(opened, budget.Client))
	if err == nil {
		err = conn.Ping(ctx) // before its answer come the settings: how many streams it takes
	}
	if err != nil {
		broken.Err = err
		return nil, broken
	}
	return conn, nil
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
	defer d.s.Session.Memory.Give(held)
	err := m.read()
	if err == nil {
		err = full
	}
	defer func() { m.ahead.End() }()
	m.Serve(r.Context(), err)
	d.s.BodiesDown.Add(m.Down)
	d.s.BodiesUp.Add(m.Up)
}
