package sock

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Swift gives c, a connection of the kernel's, in a form whose reads and writes the
// scheduler is not notified of. They never wait in the kernel, which takes microseconds
// for them, and a scheduler that is notified wakes its monitor thread for each after a rest
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
	none   bool // the kernel was asked since noWait, and had nothing
	// Of a write: where what is gathered has its memory from, nil where nothing is.
	memory *Memory
	held   []byte
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
		n, errno := read(fd, h.p)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN && h.noWait:
			h.none, h.err = true, os.ErrDeadlineExceeded
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			h.err = s.failed("read", errno)
		case n == 0:
			h.any, h.err = true, io.EOF
		default:
			h.any, h.n = true, n
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
	if s.out.memory == nil {
		return s.write(p)
	}
	if batchSize-len(s.out.held) < len(p) {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	if batchSize < len(p) {
		return s.write(p)
	}
	if s.out.held == nil {
		s.out.held = s.out.memory.get()
	}
	s.out.held = append(s.out.held, p...)
	return len(p), nil
}

func (s *swift) write(p []byte) (int, error) {
	s.out.p, s.out.n, s.out.err = p, 0, nil
	err := s.raw.Write(s.out.try)
	s.out.p = nil
	if err == nil {
		err = s.out.err
	}
	return s.out.n, err
}

// flush writes what is held, and gives its memory back. After an error it is gone, as
// is the connection.
func (s *swift) flush() error {
	b := s.out.held
	if b == nil {
		return nil
	}
	_, err := s.write(b)
	s.out.held = nil
	s.out.memory.put(b)
	return err
}

func (s *swift) tryWrite(fd uintptr) bool {
	h := &s.out
	for h.n < len(h.p) {
		n, errno := write(fd, h.p[h.n:])
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return false
		case errno != 0:
			h.err = s.failed("write", errno)
			return true
		default:
			h.n += n
		}
	}
	return true
}

func (s *swift) failed(op string, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(),
		Err: os.NewSyscallError(op, errno)}
}

// Idle reports whether a connection is open, silent and empty: what lies above Swift's, as
// crypto/tls, may hold bytes that the kernel has no more.
func Idle(c net.Conn) bool {
	s, below := under(c)
	if s == nil {
		return (below == c || empty(c)) && stillIdle(below)
	}
	s.wait(false)
	var one [1]byte
	n, err := c.Read(one[:])
	return s.wait(true) && n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

// under is Swift's connection below c, or nil with what lies lowest.
func under(c net.Conn) (*swift, net.Conn) {
	for {
		if s, ok := c.(*swift); ok {
			return s, c
		}
		outer, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil, c
		}
		c = outer.NetConn()
	}
}

// wait lets reads wait, or not. It reports whether the kernel was asked meanwhile, and had
// nothing from the first: what is no answer yet, as half a record, is one that no one
// asked for, and a deadline that is over hides whatever is there.
func (s *swift) wait(will bool) (silent bool) {
	s.in.mu.Lock()
	defer s.in.mu.Unlock()
	silent = s.in.none && !s.in.any
	s.in.noWait, s.in.any, s.in.none = !will, false, false
	return silent
}

// A Batch passes on what comes in bulk: while more is there already, what is written is
// gathered, so that a peer is woken once for several records.
type Batch struct{ from, to *swift }

// batchSize is what goes to a peer in one call while more is there: four full records
// of TLS, each with room for its header, nonce and padding.
const batchSize = 4 * (16<<10 + 64)

// A Memory is what batches gather in, for as long as they hold something.
type Memory struct{ pool sync.Pool }

func (m *Memory) get() []byte {
	if p, ok := m.pool.Get().(*[batchSize]byte); ok {
		return p[:0]
	}
	return make([]byte, 0, batchSize)
}

func (m *Memory) put(b []byte) { m.pool.Put((*[batchSize]byte)(b[:batchSize])) }

// NewBatch gathers what is written to one connection while another is read. It is nil
// where one of them is not Swift's. No one else may read from the one until Close.
func NewBatch(from, to net.Conn, memory *Memory) *Batch {
	f, _ := under(from)
	t, _ := under(to)
	if f == nil || t == nil {
		return nil
	}
	t.out.mu.Lock()
	defer t.out.mu.Unlock()
	if t.out.memory != nil {
		return nil
	}
	t.out.memory = memory
	return &Batch{from: f, to: t}
}

// Read reads by r, which reads by the connection; before a wait the peer is given all.
func (b *Batch) Read(r io.Reader, p []byte) (int, error) {
	b.from.wait(false)
	n, err := r.Read(p)
	b.from.wait(true)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if err := b.flush(); err != nil {
		return 0, err
	}
	return r.Read(p)
}

// Copy copies to the end of r, and closes the batch.
func (b *Batch) Copy(w io.Writer, r io.Reader, buf []byte) (total int64, err error) {
	defer func() {
		if cerr := b.Close(); err == nil {
			err = cerr
		}
	}()
	for {
		n, err := b.Read(r, buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		}
	}
}

func (b *Batch) flush() error {
	b.to.out.mu.Lock()
	defer b.to.out.mu.Unlock()
	return b.to.flush()
}

// Close writes what was gathered, and gathers no more.
func (b *Batch) Close() error {
	b.to.out.mu.Lock()
	defer b.to.out.mu.Unlock()
	err := b.to.flush()
	b.to.out.memory = nil
	return err
}
