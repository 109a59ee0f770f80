//go:build linux

package sock

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// Swift gives c, a connection of the kernel's, in a form whose reads and writes the
// scheduler is not told of. They never wait in the kernel, which takes microseconds
// for them, and a scheduler that is told wakes its monitor thread for each after a rest
// (docs/decisions/0024). Waiting is the poller's, as ever: deadlines and Close work.
// Anything else is given back as it is.
func Swift(c net.Conn) net.Conn {
	under, ok := c.(syscall.Conn)
	if !ok {
		return c
	}
	raw, err := under.SyscallConn()
	if err != nil {
		return c
	}
	s := &swift{Conn: c, raw: raw}
	s.in.try, s.out.try = s.tryRead, s.tryWrite
	return s
}

type swift struct {
	net.Conn
	raw syscall.RawConn

	in, out half
}

// A half is one direction. Its call is made once: a closure for each would be garbage.
type half struct {
	mu     sync.Mutex
	try    func(fd uintptr) bool
	p      []byte
	n      int
	err    error
	noWait bool // of a read
	any    bool // something was read since noWait
}

// NetConn is what lies below, as in crypto/tls.
func (s *swift) NetConn() net.Conn { return s.Conn }

func (s *swift) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	s.in.p, s.in.n, s.in.err = p, 0, nil
	err := s.raw.Read(s.in.try)
	s.in.p = nil
	if err == nil {
		err = s.in.err
	}
	return s.in.n, err
}

func (s *swift) tryRead(fd uintptr) bool {
	h := &s.in
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&h.p[0])), uintptr(len(h.p)))
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN && h.noWait:
			h.err = os.ErrDeadlineExceeded
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			h.err = s.failed("read", errno)
		case n == 0:
			h.any, h.err = true, io.EOF
		default:
			h.any, h.n = true, int(n) //nolint:gosec // the kernel's count of at most len(h.p)
		}
		return true
	}
}

func (s *swift) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	s.out.p, s.out.n, s.out.err = p, 0, nil
	err := s.raw.Write(s.out.try)
	s.out.p = nil
	if err == nil {
		err = s.out.err
	}
	return s.out.n, err
}

func (s *swift) tryWrite(fd uintptr) bool {
	h := &s.out
	for h.n < len(h.p) {
		left := h.p[h.n:]
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&left[0])), uintptr(len(left)))
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			h.err = s.failed("write", errno)
			return true
		default:
			h.n += int(n) //nolint:gosec // as above
		}
	}
	return true
}

func (s *swift) failed(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}

// Idle says whether a connection is open, silent and empty; r reads by it, and may hold
// bytes that the kernel has no more.
func Idle(c, r net.Conn) bool {
	s, ok := c.(*swift)
	if !ok {
		return empty(r) && StillIdle(c)
	}
	s.wait(false)
	var one [1]byte
	n, err := r.Read(one[:])
	return !s.wait(true) && n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// wait lets reads wait, or not. It says whether something came meanwhile: what is no
// answer yet, as half a record, is one that nobody asked for.
func (s *swift) wait(will bool) bool {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	came := s.in.any
	s.in.noWait, s.in.any = !will, false
	return came
}
