// Package client calls the guardian on its unix socket.
//
// The promise: it talks only to a guardian of the same user, by the kernel's
// word; every refusal is an [*api.Error] with its hints; a session's [Link]
// outlives the guardian and re-offers the session to the next one.
//
// It does not start a guardian by itself: [Ensure] is given the way.
//
// Most readers want [Dial] or [Ensure], then [Client.OpenSession].
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"syscall"
	"time"

	"cloister/api"
	"cloister/internal/peercred"
)

// startWithin bounds the wait for a fresh guardian. It reads the last segment
// of the audit before it answers, 0.3 s when that is full.
const startWithin = 10 * time.Second

// ErrNotRunning says that no one answers on the socket.
var ErrNotRunning = errors.New("no guardian is running")

// Client is one caller of one guardian. It is safe for use by several
// goroutines.
type Client struct {
	socket string
	http   *http.Client

	mu    sync.Mutex
	spare *net.UnixConn // made by Dial, not yet used
}

// Dial reaches the guardian at socket. errors.Is(err, ErrNotRunning) when
// there is none.
func Dial(ctx context.Context, socket string) (*Client, error) {
	c := &Client{socket: socket}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.spare = conn
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return c.take(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     30 * time.Second,
	}}
	return c, nil
}

// Close gives the connections back. Links live on.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spare == nil {
		return nil
	}
	spare := c.spare
	c.spare = nil
	return spare.Close()
}

// Socket is the path that was dialled.
func (c *Client) Socket() string { return c.socket }

func (c *Client) connect(ctx context.Context) (*net.UnixConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("connect to the guardian: %w", ErrNotRunning)
	case err != nil:
		return nil, fmt.Errorf("connect to the guardian: %w", err)
	}
	unixConn := conn.(*net.UnixConn)
	// Another user may have put a socket where ours is expected (FS-37).
	if _, err := peercred.Require(unixConn, os.Getuid()); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to the guardian: %w", err)
	}
	return unixConn, nil
}

// take returns the connection that Dial made, or a new one.
func (c *Client) take(ctx context.Context) (*net.UnixConn, error) {
	c.mu.Lock()
	spare := c.spare
	c.spare = nil
	c.mu.Unlock()
	if spare != nil {
		return spare, nil
	}
	return c.connect(ctx)
}

// Ensure dials the guardian at socket, calling start once if none answers,
// then waits until it does or ctx ends. start returns when the guardian's
// process has been spawned, or with the reason that it refused.
func Ensure(ctx context.Context, socket string, start func() error) (*Client, error) {
	c, err := Dial(ctx, socket)
	if err == nil || !errors.Is(err, ErrNotRunning) {
		return c, err
	}
	if err := start(); err != nil {
		// Another caller's guardian may have been first.
		if c, dialErr := Dial(ctx, socket); dialErr == nil {
			return c, nil
		}
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	return Wait(ctx, socket)
}

// Wait dials until the guardian answers, ctx ends or 10 s have passed.
func Wait(ctx context.Context, socket string) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	// 2 ms: a fresh guardian listens after about 15 ms, and a person waits.
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := Dial(ctx, socket)
		if err == nil || !errors.Is(err, ErrNotRunning) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("start the guardian: it does not answer: %w", err)
		case <-tick.C:
		}
	}
}

// Status asks how the guardian is.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return call[api.Status](ctx, c, http.MethodGet, api.PathStatus, nil)
}

// Stop asks the guardian to end. Sessions live on without egress until the
// next one re-adopts them.
func (c *Client) Stop(ctx context.Context, reason string) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, api.PathStop, api.StopRequest{Reason: reason})
	return err
}

// Reload asks the guardian to read its configuration again. On an error the
// last good policy stays in force.
func (c *Client) Reload(ctx context.Context) (api.Reload, error) {
	return call[api.Reload](ctx, c, http.MethodPost, api.PathReload, nil)
}

// Link asks for an address of the window that lets one browser in, once.
func (c *Client) Link(ctx context.Context) (api.Link, error) {
	return call[api.Link](ctx, c, http.MethodPost, api.PathWindow, nil)
}

// Sessions lists the live sessions, and with all the remembered ones.
func (c *Client) Sessions(ctx context.Context, all bool) ([]api.SessionInfo, error) {
	path := api.PathSessions
	if all {
		path += "?all=1"
	}
	return ask[[]api.SessionInfo](ctx, c, http.MethodGet, path, nil)
}

// Session finds one session by name or ID, with what exec needs to enter it.
func (c *Client) Session(ctx context.Context, name string) (api.ExecInfo, error) {
	return ask[api.ExecInfo](ctx, c, http.MethodGet, api.PathSessions+"/"+url.PathEscape(name), nil)
}

// StopSession ends one session and returns when it has ended. grace 0 means
// the guardian's default.
func (c *Client) StopSession(ctx context.Context, name, reason string, grace time.Duration) (api.SessionInfo, error) {
	return call[api.SessionInfo](ctx, c, http.MethodPost, api.PathSessions+"/"+url.PathEscape(name)+"/stop",
		api.StopRequest{Reason: reason, GraceMS: grace.Milliseconds()})
}

// Policy prints the policy in force; session "" means the common one.
func (c *Client) Policy(ctx context.Context, session string) (api.Policy, error) {
	path := api.PathPolicy
	if session != "" {
		path += "?session=" + url.QueryEscape(session)
	}
	return call[api.Policy](ctx, c, http.MethodGet, path, nil)
}

// PolicyDigest is the digest of the policy in force.
func (c *Client) PolicyDigest(ctx context.Context) (api.PolicyDigest, error) {
	return call[api.PolicyDigest](ctx, c, http.MethodGet, api.PathPolicyDigest, nil)
}

// CheckPolicy reports whether the files on disk would load; nothing changes.
func (c *Client) CheckPolicy(ctx context.Context) (api.PolicyCheck, error) {
	return call[api.PolicyCheck](ctx, c, http.MethodPost, api.PathPolicyCheck, nil)
}

// Explain judges a destination without connecting.
func (c *Client) Explain(ctx context.Context, q api.ExplainRequest) (api.Explanation, error) {
	return call[api.Explanation](ctx, c, http.MethodPost, api.PathPolicyExplain, q)
}
