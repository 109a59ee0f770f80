package link

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/passfd"
)

// Stream is between the agent's first process and the shim.
type Stream struct {
	io.Reader

	mu   sync.Mutex // w is its handler's, which may not return while it is used
	w    http.ResponseWriter
	out  *http.ResponseController
	over chan struct{}
	once sync.Once
}

// Write sends at once.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.over:
		return 0, net.ErrClosed
	default:
	}
	n, err := s.w.Write(p)
	if err == nil {
		err = s.out.Flush()
	}
	return n, err
}

// Close ends it, and what is being written to a pod that does not read.
func (s *Stream) Close() error {
	s.once.Do(func() {
		_ = s.out.SetWriteDeadline(time.Unix(1, 0)) // its handler is there until the next line
		close(s.over)
	})
	return nil
}

// Init waits for the agent's first process.
func (s *Shim) Init(ctx context.Context) (*Stream, error) {
	select {
	case c := <-s.inits:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *Shim) init(w http.ResponseWriter, r *http.Request) {
	c := &Stream{Reader: r.Body, w: w, out: http.NewResponseController(w), over: make(chan struct{})}
	if err := c.out.Flush(); err != nil {
		return // the gate is gone
	}
	select {
	case s.inits <- c:
	default:
		panic(http.ErrAbortHandler) // there is one
	}
	select {
	case <-c.over:
	case <-r.Context().Done():
		_ = c.Close() // nothing is written any more
	}
	c.mu.Lock() // what is being written ends with the connection, if not before
	defer c.mu.Unlock()
}

// asks are the connections that the gate is asked for.
type asks struct {
	mu    sync.Mutex
	last  uint64
	wait  map[uint64]chan net.Conn
	queue chan Ask
}

func newAsks() asks {
	return asks{wait: map[uint64]chan net.Conn{}, queue: make(chan Ask)}
}

// Dial connects to a TCP port that something inside listens on.
func (s *Shim) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	come := make(chan net.Conn, 1)
	s.asks.mu.Lock()
	s.asks.last++
	ask := Ask{Number: s.asks.last, Port: port}
	s.asks.wait[ask.Number] = come
	s.asks.mu.Unlock()
	defer func() {
		s.asks.mu.Lock()
		delete(s.asks.wait, ask.Number)
		s.asks.mu.Unlock()
		select {
		case c := <-come: // too late
			if c != nil {
				_ = c.Close()
			}
		default:
		}
	}()
	select {
	case s.asks.queue <- ask:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case c := <-come:
		if c == nil {
			return nil, unix.ECONNREFUSED
		}
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *Shim) asked(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	_ = out.Flush() // a gate that is gone is seen below
	lines := json.NewEncoder(w)
	for {
		select {
		case ask := <-s.asks.queue:
			if err := errors.Join(lines.Encode(ask), out.Flush()); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// port is the connection that was asked for, or none where the body is empty at once.
func (s *Shim) port(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.ParseUint(r.Header.Get(HeaderAsk), 10, 64)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.asks.mu.Lock()
	come := s.asks.wait[number]
	delete(s.asks.wait, number)
	s.asks.mu.Unlock()
	if come == nil {
		panic(http.ErrAbortHandler) // no caller waits for it
	}
	if r.Header.Get(headerNone) != "" {
		come <- nil
		return
	}
	own, theirs, err := pair()
	if err != nil {
		come <- nil
		panic(http.ErrAbortHandler)
	}
	come <- theirs
	out := http.NewResponseController(w)
	_ = out.Flush() // a gate that is gone is seen below
	stop := context.AfterFunc(r.Context(), func() { _ = own.Close() })
	defer stop()
	in := make(chan struct{})
	go func() { // framed, since the end of an answer would end the other direction too
		defer close(in)
		body := Body{flushing{w, out}}
		if _, err := io.Copy(body, own); err != nil || body.Close() != nil {
			_ = r.Body.Close() // ends the other direction
		}
	}()
	if _, err := io.Copy(own, r.Body); err == nil {
		_ = own.CloseWrite() // an error means that the caller is gone, which the other direction sees
	} else {
		_ = own.Close()
	}
	<-in
	_ = own.Close() // both directions have ended
}

// flushing sends each piece at once.
type flushing struct {
	w   io.Writer
	out *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}

// headerNone says that nothing listens there.
const headerNone = "Cloister-None"

// pair makes a connection.
func pair() (a, b *net.UnixConn, err error) {
	fds, err := passfd.Pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, nil, err
	}
	var out [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		c, cerr := net.FileConn(f)
		err = errors.Join(err, cerr, f.Close())
		out[i], _ = c.(*net.UnixConn)
	}
	if err != nil {
		return nil, nil, err
	}
	return out[0], out[1], nil
}

// refused passes the kernel's messages on.
func (s *Shim) refused(_ http.ResponseWriter, r *http.Request) {
	for {
		m, err := ReadFrame(r.Body, MaxDatagram)
		if err != nil {
			return
		}
		if s.Refused != nil {
			s.Refused(m)
		}
	}
}
