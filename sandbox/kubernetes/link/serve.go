package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"cloister/internal/origin"
)

// Shim is the shim's end, for one gate.
type Shim struct {
	// Setup is what the gate is given.
	Setup Setup
	// Streams and Questions are the sockets, by path, to which programs' connections and DNS
	// go on.
	Streams, Questions string

	// Refused is given each message of the kernel about a datagram that was refused. It may
	// be nil.
	Refused func(message []byte)

	// Look is how long nothing comes from the gate before it is asked whether it is there, and how
	// long it may take to answer; 0 is as long as the gate waits for the shim.
	Look time.Duration

	open  chan struct{}
	once  sync.Once
	inits chan *Stream
	asks  asks
}

// NewShim makes one.
func NewShim(s Setup, streams, questions string) *Shim {
	return &Shim{Setup: s, Streams: streams, Questions: questions, open: make(chan struct{}), inits: make(chan *Stream, 1),
		asks: newAsks()}
}

// Open is closed when the gate says that it stands.
func (s *Shim) Open() <-chan struct{} { return s.open }

// streams bound what a gate may have open at once: beyond what an egress engine takes, so
// that it is the engine that refuses, in the record.
const streams = 2048

// Bounds of those at the shim's door who have not shown a certificate.
const (
	strangers   = 64
	shakeWithin = 10 * time.Second
)

// Accept waits for the gate at a listener, and closes that: whoever else comes, and has no
// certificate, is sent away.
func Accept(ctx context.Context, l net.Listener, config *tls.Config) (*tls.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = l.Close() })
	gates, failed := make(chan *tls.Conn), make(chan error, 1)
	shake := func(c net.Conn) {
		secured := tls.Server(c, config)
		short, stop := context.WithTimeout(ctx, shakeWithin)
		defer stop()
		if err := secured.HandshakeContext(short); err != nil {
			_ = c.Close() // a stranger
			return
		}
		select {
		case gates <- secured:
		case <-ctx.Done():
			_ = c.Close() // there is one
		}
	}
	go func() {
		slots := make(chan struct{}, strangers)
		for {
			slots <- struct{}{}
			c, err := l.Accept()
			if err != nil {
				failed <- err
				return
			}
			go func() {
				defer func() { <-slots }()
				shake(c)
			}()
		}
	}()
	select {
	case c := <-gates:
		return c, nil
	case err := <-failed:
		return nil, fmt.Errorf("wait for the gate: %w", err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Serve serves the connection of a gate that has a certificate, until it ends.
func (s *Shim) Serve(ctx context.Context, c *tls.Conn) error {
	if err := c.HandshakeContext(ctx); err != nil {
		return errors.Join(fmt.Errorf("the gate's connection: %w", err), c.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathSetup, s.setup)
	mux.HandleFunc("POST "+PathOpen, s.opened)
	mux.HandleFunc("POST "+PathTCP, s.tcp)
	mux.HandleFunc("POST "+PathDNS, s.dns)
	mux.HandleFunc("POST "+PathDNSTCP, s.dnsTCP)
	mux.HandleFunc("POST "+PathInit, s.init)
	mux.HandleFunc("POST "+PathAsked, s.asked)
	mux.HandleFunc("POST "+PathPort, s.port)
	mux.HandleFunc("POST "+PathRefuse, s.refused)
	l := &single{conn: make(chan net.Conn, 1), addr: c.LocalAddr(), over: make(chan struct{})}
	l.conn <- c
	look := cmp.Or(s.Look, lookEvery)
	server := &http.Server{Handler: mux, Protocols: onlyHTTP2(), ReadHeaderTimeout: lookEvery,
		// A node that is lost ends no connection.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams, MaxReceiveBufferPerConnection: 3 << 20,
			SendPingTimeout: look, PingTimeout: look},
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // the session's end says what there is to say
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				l.once.Do(func() { close(l.over) })
			}
		}}
	if err := server.Serve(l); !errors.Is(err, net.ErrClosed) {
		return errors.Join(err, c.Close())
	}
	return nil
}

// single is a listener of one connection.
type single struct {
	conn chan net.Conn
	addr net.Addr
	once sync.Once
	over chan struct{} // closed when the connection is
}

// Accept gives the connection, and then an error when that has ended.
func (s *single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conn:
		return c, nil
	case <-s.over:
		return nil, net.ErrClosed
	}
}

// Close ends nothing: the connection is ended by its sides.
func (s *single) Close() error { return nil }

// Addr is that of this end.
func (s *single) Addr() net.Addr { return s.addr }

func onlyHTTP2() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP2(true)
	return p
}

func (s *Shim) setup(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(s.Setup) // a gate that is gone needs none
}

func (s *Shim) opened(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).Flush() // the answer ends with the connection
	s.once.Do(func() { close(s.open) })
	<-r.Context().Done()
}

func (s *Shim) tcp(w http.ResponseWriter, r *http.Request) {
	to, err := netip.ParseAddrPort(r.Header.Get(HeaderTo))
	if err != nil {
		panic(http.ErrAbortHandler) // the stream is reset, as the program's connection is then
	}
	c, err := origin.Dial(r.Context(), s.Streams, to)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	carry(w, r, c)
}

func (s *Shim) dnsTCP(w http.ResponseWriter, r *http.Request) {
	var d net.Dialer
	c, err := d.DialContext(r.Context(), "unix", s.Questions)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	carry(w, r, c.(*net.UnixConn)) // it was dialled as one
}

// dns asks a question of a datagram as TCP has it (RFC 7766).
func (s *Shim) dns(w http.ResponseWriter, r *http.Request) {
	question, err := io.ReadAll(io.LimitReader(r.Body, MaxDatagram))
	if err != nil || len(question) >= MaxDatagram {
		panic(http.ErrAbortHandler)
	}
	var d net.Dialer
	c, err := d.DialContext(r.Context(), "unix", s.Questions)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer c.Close()
	stop := context.AfterFunc(r.Context(), func() { _ = c.Close() })
	defer stop()
	_, err = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...))
	size := make([]byte, 2)
	if err == nil {
		_, err = io.ReadFull(c, size)
	}
	answer := make([]byte, binary.BigEndian.Uint16(size))
	if err == nil {
		_, err = io.ReadFull(c, answer)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(answer) // a program that is gone needs none
}

// carry copies both directions until the far end has ended its own. A direction that was
// aborted aborts the stream.
func carry(w http.ResponseWriter, r *http.Request, c *net.UnixConn) {
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil {
		_ = c.Close() // the gate is gone
		return
	}
	stop := context.AfterFunc(r.Context(), func() { _ = c.Close() })
	up := make(chan struct{})
	go func() {
		defer close(up)
		if _, err := io.Copy(c, r.Body); err != nil {
			_ = c.Close() // which the other direction sees
			return
		}
		_ = c.CloseWrite() // an error means that the far end is gone, which the other direction sees
	}()
	err := flushed(w, out, c)
	stop()
	_ = c.Close()      // it has ended
	_ = r.Body.Close() // ends the other direction
	<-up
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// flushed copies, and sends each piece at once.
func flushed(w io.Writer, out *http.ResponseController, c *net.UnixConn) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			if ferr := out.Flush(); ferr != nil {
				return ferr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
