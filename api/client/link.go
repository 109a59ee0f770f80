package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"cloister/api"
	"cloister/internal/exactjson"
	"cloister/internal/passfd"
	"cloister/internal/stackroom"
)

const (
	// retryEvery is how soon a link looks for the next guardian. Re-adoption
	// within 3 s is the promise (RS-01); 100 ms leaves room for a slow start.
	retryEvery = 100 * time.Millisecond
	// retryRefused is how soon a link tries again after a guardian refused
	// the session: a person has to mend something first.
	retryRefused = time.Second
	// writeWithin bounds one frame. Frames are small; a guardian that takes
	// none for so long is as good as dead.
	writeWithin = 5 * time.Second
	// endWithin is how long the last word may take; nextWithin how long a
	// person waits at the end for a guardian that is not there.
	endWithin  = 5 * time.Second
	nextWithin = time.Second
	// handshakeWithin bounds request, grant and arming of a re-adoption.
	handshakeWithin = 10 * time.Second
)

// ErrGuardianGone says that the guardian died before it answered, and no
// other took its place in time. The session's summary may be short.
var ErrGuardianGone = errors.New("the guardian is gone")

// ErrNoAnswer says that a guardian is there and does not answer: it hangs.
var ErrNoAnswer error = noAnswer{}

type noAnswer struct{}

func (noAnswer) Error() string { return "the guardian is there but does not answer" }

// Hints are the words of what to do.
func (noAnswer) Hints() []string {
	return []string{"cloister guardian status tells its process: end that, and the next command starts another"}
}

// Listeners are the gate's sockets, made inside the sandbox's network
// namespace. Any may be nil. The Link keeps them until Close, to hand them
// to the next guardian.
type Listeners struct {
	TCP4, TCP6, DNS, DNS6, DNSTCP, DNSTCP6, Refusals, Streams, DNSStreams *os.File
}

func (l Listeners) list() (kinds []api.ListenerKind, files []*os.File) {
	for _, one := range []struct {
		kind api.ListenerKind
		file *os.File
	}{
		{api.ListenTCP4, l.TCP4},
		{api.ListenTCP6, l.TCP6},
		{api.ListenDNS, l.DNS},
		{api.ListenDNS6, l.DNS6},
		{api.ListenDNSTCP, l.DNSTCP},
		{api.ListenDNSTCP6, l.DNSTCP6},
		{api.ListenRefusals, l.Refusals}, {api.ListenStreams, l.Streams}, {api.ListenDNSStreams, l.DNSStreams},
	} {
		if one.file != nil {
			kinds = append(kinds, one.kind)
			files = append(files, one.file)
		}
	}
	return kinds, files
}

// Link is a session's tie to the guardian: while it is open, the session
// lives. When the guardian dies, egress stops, and the link offers the
// session to the next one, every 100 ms; it never starts one.
type Link struct {
	client *Client
	req    api.SessionRequest

	stopped chan string
	armed   chan struct{} // closed once a guardian serves the listeners
	ended   chan struct{} // closed once the summary arrived
	done    chan struct{} // closed when run has returned
	cancel  context.CancelFunc

	// What the session is, to tell the next guardian. A change and the look
	// at conn happen under one lock: either this guardian is told, or the
	// change is part of what the next one is told.
	mu        sync.Mutex
	conn      *passfd.Conn  // nil while no guardian is there
	gone      chan struct{} // closed while conn is nil
	grant     api.SessionGrant
	listeners Listeners
	arm       *api.Arm
	started   *api.Started
	exec      json.RawMessage
	end       *api.SessionEnd
	summary   api.SessionSummary // the guardian's latest word
	refused   error              // why run gave up
}

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
	text := fmt.Appendf(make([]byte, 0, len(body)+256), "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nConnection: Upgrade\r\nUpgrade: %s\r\nContent-Length: %d\r\n\r\n",
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

// Grant is the guardian's word for this session; after a re-adoption it is
// the new guardian's.
func (l *Link) Grant() api.SessionGrant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant
}

// Stopped yields the reason when the guardian asks the session to end.
func (l *Link) Stopped() <-chan string { return l.stopped }

// Arm hands the listeners over and returns when the guardian serves them. The
// Link owns the files from here on, also after an error.
func (l *Link) Arm(ctx context.Context, listeners Listeners) error {
	kinds, files := listeners.list()
	arm := &api.Arm{Listeners: kinds}
	l.mu.Lock()
	if l.arm != nil {
		l.mu.Unlock()
		return errors.New("arm session: armed already")
	}
	l.listeners, l.arm = listeners, arm
	conn := l.conn
	l.mu.Unlock()

	l.send(conn, api.Frame{Type: api.FrameArm, Arm: arm}, files)
	select {
	case <-l.armed:
		return nil
	case <-l.done:
		return fmt.Errorf("arm session: %w", l.why())
	case <-ctx.Done():
		return fmt.Errorf("arm session: %w", ctx.Err())
	}
}

// Started tells that the command runs: how the driver finds it, and the host's number of its
// first process, where it has one.
func (l *Link) Started(handle string, pid int) {
	started := &api.Started{Handle: handle, PID: pid}
	l.mu.Lock()
	l.started = started
	conn := l.conn
	l.mu.Unlock()
	l.send(conn, api.Frame{Type: api.FrameStarted, Started: started}, nil)
}

// Judged tells what the kernel judged.
func (l *Link) Judged(e api.FileEvent) {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	l.send(conn, api.Frame{Type: api.FrameFile, File: &e}, nil)
}

// Describe deposits what `exec` needs to enter the session; the guardian
// keeps it as it is. At most [api.MaxExec] bytes of JSON.
func (l *Link) Describe(exec json.RawMessage) error {
	if len(exec) > api.MaxExec || !json.Valid(exec) {
		return fmt.Errorf("describe session: %d bytes; want JSON of at most %d", len(exec), api.MaxExec)
	}
	l.mu.Lock()
	l.exec = exec
	conn := l.conn
	l.mu.Unlock()
	l.send(conn, api.Frame{Type: api.FrameDescribe, Exec: exec}, nil)
	return nil
}

// End tells how the session ended and returns the guardian's count of what it
// asked for. Where the guardian is gone it gives the next one a second, then
// returns the last known count with [ErrGuardianGone].
func (l *Link) End(ctx context.Context, end api.SessionEnd) (api.SessionSummary, error) {
	l.mu.Lock()
	l.end = &end
	conn, gone := l.conn, l.gone
	l.mu.Unlock()
	l.send(conn, api.Frame{Type: api.FrameEnd, End: &end}, nil)

	ctx, cancel := context.WithTimeout(ctx, endWithin)
	defer cancel()
	select {
	case <-gone:
		ctx, cancel = context.WithTimeoutCause(ctx, nextWithin, ErrGuardianGone)
		defer cancel()
	case <-l.ended:
	case <-l.done:
	case <-ctx.Done():
	}
	select {
	case <-l.ended:
	case <-l.done:
	case <-ctx.Done():
	}
	switch {
	case isClosed(l.ended): // whatever else is true by now
		return l.count(), nil
	case isClosed(l.done):
		return l.count(), fmt.Errorf("end session: %w", l.why())
	case isClosed(gone): // also where all the time was over before that was seen
		return l.count(), fmt.Errorf("end session: %w", ErrGuardianGone)
	default:
		return l.count(), fmt.Errorf("end session: %w", context.Cause(ctx))
	}
}

// Close ends the session if it has not ended, and closes the listeners. It
// waits for the link's goroutine.
func (l *Link) Close() error {
	l.cancel()
	l.mu.Lock()
	if l.conn != nil {
		_ = l.conn.Close()
	}
	l.mu.Unlock()
	<-l.done

	l.mu.Lock()
	defer l.mu.Unlock()
	_, files := l.listeners.list()
	l.listeners = Listeners{}
	var failed error
	for _, f := range files {
		failed = errors.Join(failed, f.Close())
	}
	return failed
}

func (l *Link) count() api.SessionSummary {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.summary
}

// why is the reason that run gave up.
func (l *Link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		return l.refused
	}
	return net.ErrClosed
}

// send writes one frame. A failure closes the connection; run then offers the
// session, with what could not be said, to the next guardian.
func (l *Link) send(conn *passfd.Conn, frame api.Frame, files []*os.File) {
	if conn == nil {
		return
	}
	if err := writeFrame(conn, frame, files); err != nil {
		_ = conn.Close()
	}
}

// run owns the reading side for the link's whole life.
func (l *Link) run(ctx context.Context) {
	defer close(l.done)
	conn := l.conn
	for {
		err := l.listen(conn)
		_ = conn.Close()
		conn.Discard()
		if l.finished(ctx, err) {
			return
		}
		if conn = l.rejoin(ctx); conn == nil {
			return
		}
	}
}

// listen handles frames until the connection breaks.
func (l *Link) listen(conn *passfd.Conn) error {
	for {
		frame, err := readFrame(conn)
		if err != nil {
			return err
		}
		if err := l.handle(conn, frame); err != nil {
			return err
		}
	}
}

func (l *Link) handle(conn *passfd.Conn, frame api.Frame) error {
	switch frame.Type {
	case api.FrameArmed:
		closeOnce(l.armed)
	case api.FrameStop:
		reason := "the guardian asks"
		if frame.Stop != nil && frame.Stop.Reason != "" {
			reason = frame.Stop.Reason
		}
		select {
		case l.stopped <- reason:
		default: // asked before, not yet heard
		}
	case api.FrameSealed:
		l.mu.Lock()
		l.grant.Sealed = frame.Sealed
		l.mu.Unlock()
	case api.FrameNarrow:
		l.mu.Lock()
		l.req.Narrow = frame.Narrow
		if len(frame.Sealed) > 0 {
			l.grant.Sealed = frame.Sealed
		}
		l.mu.Unlock()
	case api.FrameCounts, api.FrameSummary:
		if frame.Summary != nil {
			l.mu.Lock()
			l.summary = *frame.Summary
			l.mu.Unlock()
		}
		if frame.Type == api.FrameSummary {
			closeOnce(l.ended)
			return nil
		}
		// A guardian that has gone meanwhile may have left its last word in
		// the socket: that is read, whether or not the guardian reads this.
		_ = writeFrame(conn, api.Frame{Type: api.FrameAck}, nil)
	case api.FrameError:
		if frame.Error != nil {
			return frame.Error
		}
		return errors.New("the guardian refused the session")
	default:
		// A newer guardian may say more than this shim knows.
	}
	return nil
}

// finished says whether the link is over after a broken connection, and marks
// the guardian as gone otherwise.
func (l *Link) finished(ctx context.Context, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = nil
	close(l.gone)
	if ctx.Err() != nil || isClosed(l.ended) {
		return true
	}
	// Refused before the listeners were served: nothing lives yet that would
	// be worth re-offering.
	var refused *api.Error
	if errors.As(err, &refused) && !isClosed(l.armed) {
		l.refused = refused
		return true
	}
	return false
}

// rejoin offers the session until a guardian takes it; nil when ctx ended.
func (l *Link) rejoin(ctx context.Context) *passfd.Conn {
	for ctx.Err() == nil {
		conn, err := l.offer(ctx)
		if err == nil {
			return conn
		}
		l.mu.Lock()
		waiting := l.listeners
		l.mu.Unlock()
		waiting.refuse(ctx, retryAfter(err))
	}
	return nil
}

func retryAfter(err error) time.Duration {
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code != api.CodeNameTaken && refused.Code != api.CodeShuttingDown {
		return retryRefused
	}
	return retryEvery
}

// offer re-opens the session with one guardian and hands the listeners over.
func (l *Link) offer(ctx context.Context) (*passfd.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	asked, err := l.client.Ask(ctx, l.again())
	if err != nil {
		return nil, err
	}
	conn, grant, err := asked.answer()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn, l.grant, l.gone = conn, grant, make(chan struct{})
	arm, end := l.arm, l.end
	_, files := l.listeners.list()
	l.mu.Unlock()
	if arm != nil {
		l.send(conn, api.Frame{Type: api.FrameArm, Arm: arm}, files)
	}
	if end != nil {
		l.send(conn, api.Frame{Type: api.FrameEnd, End: end}, nil)
	}
	return conn, nil
}

// again is the request with what happened since it was first made.
func (l *Link) again() api.SessionRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	req := l.req
	req.Name = l.grant.Name
	req.Resume = &api.Resume{
		ID:        l.grant.ID,
		Name:      l.grant.Name,
		CreatedAt: l.grant.CreatedAt,
		Exec:      l.exec,
		Summary:   l.summary,
		Secrets:   l.grant.Secrets,
		Sealed:    l.grant.Sealed,
	}
	if l.started != nil {
		req.Resume.Handle, req.Resume.CommandPID = l.started.Handle, l.started.PID
	}
	return req
}

// closeOnce closes a channel that only run closes.
func closeOnce(c chan struct{}) {
	if !isClosed(c) {
		close(c)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func readFrame(conn *passfd.Conn) (api.Frame, error) {
	var frame api.Frame
	line, err := conn.Read()
	if err != nil {
		return frame, err
	}
	if err := exactjson.Unmarshal(line, &frame); err != nil {
		return frame, fmt.Errorf("read frame: %w", err)
	}
	return frame, nil
}

func writeFrame(conn *passfd.Conn, frame api.Frame, files []*os.File) error {
	line, err := exactjson.Marshal(frame)
	if err != nil {
		return fmt.Errorf("write frame: %w", err)
	}
	return conn.Write(line, files, time.Now().Add(writeWithin))
}
