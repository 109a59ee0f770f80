package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Gate is the gate's end.
type Gate struct{ c *http.ClientConn }

// lookEvery is how long nothing comes before the other end is asked whether it is there,
// and how long it may take to answer.
const lookEvery = 15 * time.Second

// Dialed takes over a connection to the shim.
func Dialed(ctx context.Context, o Order, c net.Conn) (*Gate, error) {
	config, err := o.Client()
	if err != nil {
		return nil, err
	}
	secured := tls.Client(c, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("reach the shim: %w", err)
	}
	t := &http.Transport{DisableCompression: true, Protocols: onlyHTTP2(),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: lookEvery, PingTimeout: lookEvery, StrictMaxConcurrentRequests: true},
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return secured, nil }}
	h2, err := t.NewClientConn(ctx, "https", serverName+":443")
	if err != nil {
		return nil, fmt.Errorf("reach the shim: %w", err)
	}
	return &Gate{h2}, nil
}

// Close ends the connection.
func (g *Gate) Close() error { return g.c.Close() }

func (g *Gate) ask(
	ctx context.Context, method, path string, to netip.AddrPort, body io.Reader,
) (*http.Response, error) {
	head := http.Header{}
	if to.IsValid() {
		head.Set(HeaderTo, to.String())
	}
	return g.askWith(ctx, method, path, head, body)
}

func (g *Gate) askWith(
	ctx context.Context, method, path string, head http.Header, body io.Reader,
) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "https://"+serverName+path, body)
	if err != nil {
		return nil, err
	}
	r.Header = head
	answer, err := g.c.RoundTrip(r)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("the shim answers %s to %s", answer.Status, path), answer.Body.Close())
	}
	return answer, err
}

// Setup asks what to put into the agent's container.
func (g *Gate) Setup(ctx context.Context) (s Setup, err error) {
	answer, err := g.ask(ctx, http.MethodGet, PathSetup, netip.AddrPort{}, nil)
	if err != nil {
		return s, err
	}
	defer answer.Body.Close()
	return s, json.NewDecoder(answer.Body).Decode(&s)
}

// Open says that the gate stands. The channel is closed when the shim is gone.
func (g *Gate) Open(ctx context.Context) (gone <-chan struct{}, err error) {
	//nolint:bodyclose // below, by another goroutine
	answer, err := g.ask(ctx, http.MethodPost, PathOpen, netip.AddrPort{}, nil)
	if err != nil {
		return nil, err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, answer.Body) // its end is what is waited for
		answer.Body.Close()
	}()
	return over, nil
}

// TCP carries a program's connection that was going to an address, until both directions
// have ended.
func (g *Gate) TCP(ctx context.Context, c *net.TCPConn, to netip.AddrPort) {
	g.carry(ctx, PathTCP, c, to)
}

// Questions carries a connection of DNS.
func (g *Gate) Questions(ctx context.Context, c *net.TCPConn) {
	g.carry(ctx, PathDNSTCP, c, netip.AddrPort{})
}

func (g *Gate) carry(ctx context.Context, path string, c *net.TCPConn, to netip.AddrPort) {
	defer func() { _ = c.Close() }() // its ends are seen by reads and writes
	answer, err := g.ask(ctx, http.MethodPost, path, to, reader{c})
	if err == nil {
		_, err = io.Copy(c, answer.Body)
		answer.Body.Close()
	}
	if err == nil {
		err = c.CloseWrite()
	}
	if err != nil {
		_ = c.SetLinger(0) // the program is to see a reset, as the engine's would be
	}
}

// reader is a request's body, whose end is not that of the other direction.
type reader struct{ *net.TCPConn }

// Close ends a Read that waits.
func (r reader) Close() error { return r.CloseRead() }

// DNS asks one question, as a datagram has it.
func (g *Gate) DNS(ctx context.Context, question []byte) ([]byte, error) {
	answer, err := g.ask(ctx, http.MethodPost, PathDNS, netip.AddrPort{}, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(io.LimitReader(answer.Body, MaxDatagram))
}

// Init joins the agent's first process with the shim, until either ends.
func (g *Gate) Init(ctx context.Context, c net.Conn) error {
	defer c.Close() // ends the body's Read
	answer, err := g.ask(ctx, http.MethodPost, PathInit, netip.AddrPort{}, struct{ io.Reader }{c})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(c, answer.Body)
	return err
}

// Refused passes on what the kernel reported, as frames.
func (g *Gate) Refused(ctx context.Context, frames io.Reader) error {
	answer, err := g.ask(ctx, http.MethodPost, PathRefuse, netip.AddrPort{}, struct{ io.Reader }{frames})
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Asked makes the connections that the shim asks for, by dial, until the shim is gone.
func (g *Gate) Asked(ctx context.Context, dial func(ctx context.Context, port uint16) (*net.TCPConn, error)) error {
	answer, err := g.ask(ctx, http.MethodPost, PathAsked, netip.AddrPort{}, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := json.NewDecoder(answer.Body)
	for {
		var ask Ask
		if err := lines.Decode(&ask); err != nil {
			return err
		}
		go func() {
			head := http.Header{HeaderAsk: {strconv.FormatUint(ask.Number, 10)}}
			c, err := dial(ctx, ask.Port)
			if err == nil {
				g.port(ctx, c, head)
				return
			}
			head.Set(headerNone, "1")
			if answer, err := g.askWith(ctx, http.MethodPost, PathPort, head, nil); err == nil {
				_ = answer.Body.Close()
			}
		}()
	}
}

// port joins a connection inside with the shim's.
func (g *Gate) port(ctx context.Context, c *net.TCPConn, head http.Header) {
	defer func() { _ = c.Close() }() // both directions have ended
	up, done := io.Pipe()
	go func() {
		_, err := io.Copy(done, c)
		_ = done.CloseWithError(err)
	}()
	answer, err := g.askWith(ctx, http.MethodPost, PathPort, head, up)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	if _, err := io.Copy(c, &Text{R: answer.Body}); err != nil {
		_ = c.SetLinger(0) // the server inside is to see a reset
		return
	}
	_ = c.CloseWrite()                      // an error means that it is gone
	_, _ = io.Copy(io.Discard, answer.Body) // until the other direction has ended
}
