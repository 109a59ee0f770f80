package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"cloister/api"
	"cloister/internal/exactjson"
	"cloister/internal/passfd"
	"cloister/internal/stackroom"
)

// OpenWithin bounds the opening of a session and the taking over of its gate.
const OpenWithin = 10 * time.Second

// OpenSession asks for a session. The error is an [*api.Error] when the
// guardian refused. ctx bounds the opening, not the link's life.
func (c *Client) OpenSession(ctx context.Context, req api.SessionRequest) (*Link, error) {
	asked, err := c.Ask(ctx, req)
	if err != nil {
		return nil, err
	}
	return asked.Answer()
}

// Asked is a session that was asked for. Its Answer is to be taken.
type Asked struct {
	client *Client
	req    api.SessionRequest
	ctx    context.Context // of the opening, which this is
	raw    *net.UnixConn
	stop   func() bool
}

// Ask sends the request for a session, and leaves the guardian to it.
func (c *Client) Ask(ctx context.Context, req api.SessionRequest) (*Asked, error) {
	text, err := exactjson.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	raw, err := c.take(ctx)
	if err != nil {
		return nil, err
	}
	// A cancelled ctx unblocks the reads by closing the socket.
	a := &Asked{client: c, req: req, ctx: ctx, raw: raw, stop: context.AfterFunc(ctx, func() { _ = raw.Close() })}
	if err := request(raw, text); err != nil {
		a.stop()
		_ = raw.Close()
		return nil, err
	}
	return a, nil
}

// Answer waits for the guardian's word.
func (a *Asked) Answer() (*Link, error) {
	conn, grant, err := a.answer()
	if err != nil {
		return nil, err
	}
	ctx, c, req := a.ctx, a.client, a.req
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &Link{
		client:  &Client{socket: c.socket},
		req:     req,
		stopped: make(chan string, 1),
		files:   make(chan api.FileRules, 1),
		notices: make(chan string, mostNotices),
		armed:   make(chan struct{}),
		ended:   make(chan struct{}),
		done:    make(chan struct{}),
		cancel:  cancel,
		conn:    conn,
		gone:    make(chan struct{}),
		grant:   grant,
	}
	if req.Resume != nil {
		l.summary = req.Resume.Summary
	}
	go stackroom.For(func() { l.run(live) })
	return l, nil
}

// answer reads the grant, and gives up the connection where there is none.
func (a *Asked) answer() (*passfd.Conn, api.SessionGrant, error) {
	conn, grant, err := granted(a.raw)
	if !a.stop() && err == nil {
		err = a.ctx.Err()
	}
	if err != nil {
		_ = a.raw.Close()
		return nil, api.SessionGrant{}, err
	}
	return conn, grant, nil
}

// request asks for a session on a fresh connection, in one write and by hand:
// net/http costs a start 90 KB of memory.
func request(raw *net.UnixConn, body []byte) error {
	text := fmt.Appendf(make([]byte, 0, len(body)+256),
		"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"+
			"Connection: Upgrade\r\nUpgrade: %s\r\nContent-Length: %d\r\n\r\n",
		api.PathSessions, api.Host, api.UpgradeProtocol, len(body))
	if _, err := raw.Write(append(text, body...)); err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	return nil
}

// granted reads the answer: the connection is the session's link from there on.
func granted(raw *net.UnixConn) (*passfd.Conn, api.SessionGrant, error) {
	var none api.SessionGrant
	reader := bufio.NewReaderSize(raw, 2<<10)
	if err := switched(reader); err != nil {
		return nil, none, err
	}
	leftover, err := reader.Peek(reader.Buffered())
	if err != nil {
		return nil, none, fmt.Errorf("open session: %w", err)
	}
	conn := passfd.New(raw, leftover, api.MaxFrame)
	frame, err := readFrame(conn)
	switch {
	case err != nil:
		return nil, none, fmt.Errorf("open session: %w", err)
	case frame.Type == api.FrameError && frame.Error != nil:
		return nil, none, frame.Error
	case frame.Type != api.FrameGrant || frame.Grant == nil:
		return nil, none, fmt.Errorf("open session: the guardian sent %q instead of a grant", frame.Type)
	}
	return conn, *frame.Grant, nil
}

// switched reads the head of the answer to the request for a session. Any but
// the expected one is an error, the guardian's own where it sent one.
func switched(r *bufio.Reader) error {
	const expected = "HTTP/1.1 101 "
	if head, err := r.Peek(len(expected)); err != nil || string(head) != expected {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("open session: %w", err)
		}
		defer func() { _ = resp.Body.Close() }()
		return readError(resp)
	}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("open session: %w", err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
	}
}
