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
	r, err := http.NewRequestWithContext(ctx, method, "https://"+serverName+path, body)
	if err != nil {
		return nil, err
	}
	if to.IsValid() {
		r.Header.Set(HeaderTo, to.String())
	}
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
