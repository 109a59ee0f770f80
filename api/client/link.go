package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"cloister/api"
	"cloister/internal/exactjson"
	"cloister/internal/passfd"
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

// mostNotices wait for the person at once.
const mostNotices = 8

// Link is a session's tie to the guardian: while it is open, the session
// lives. When the guardian dies, egress stops, and the link offers the
// session to the next one, every 100 ms; it never starts one.
type Link struct {
	client *Client
	req    api.SessionRequest

	stopped chan string
	files   chan api.FileRules // the newest that were not taken yet
	notices chan string        // bounded: a person reads some
	armed   chan struct{}      // closed once a guardian serves the listeners
	ended   chan struct{}      // closed once the summary arrived
	done    chan struct{}      // closed when run has returned
	cancel  context.CancelFunc

	// What the session is, to tell the next guardian. A change and the look
	// at conn happen under one lock: either this guardian is notified, or the
	// change is part of what the next one is sent.
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
	filed     filed
	refused   error // why run gave up
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

// Notices yields what the guardian has to say to the person at the session.
func (l *Link) Notices() <-chan string { return l.notices }

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
	case api.FrameFiles:
		l.refile(frame.Files)
	case api.FrameNotice:
		select {
		case l.notices <- frame.Notice:
		default: // so many were not read yet
		}
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
	case api.FrameFiled:
		l.mu.Lock()
		more := l.filed.recorded(frame.Filed)
		l.mu.Unlock()
		if more != nil {
			_ = writeFrame(conn, *more, nil) // a broken connection is noticed by its reader
		}
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
