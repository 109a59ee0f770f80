// Package passfd carries lines with open files beside them over a unix
// stream socket.
//
// The promise: a line arrives whole or not at all, no longer than its bound;
// files arrive in the order they were sent, close-on-exec, at most [MaxFiles]
// waiting; a truncated control message is an error, and what arrived of it is
// closed.
//
// It does not know what a line means, nor who is at the other end.
//
// Most readers want [New], then [Conn.Read] with [Conn.Take].
package passfd

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// MaxFiles bounds the files that wait to be taken.
const MaxFiles = 16

// ErrTooLong is returned by Read for a line longer than the bound.
var ErrTooLong = errors.New("read line: longer than allowed")

// Conn reads and writes lines. One goroutine may read while others write.
type Conn struct {
	c    *net.UnixConn
	max  int
	buf  []byte // read, not yet returned
	oob  []byte
	next []byte // scratch for one recvmsg

	files []*os.File

	writing sync.Mutex
}

// New takes c over. leftover is what an earlier reader of c had buffered; max
// is the longest line in bytes, newline included.
func New(c *net.UnixConn, leftover []byte, max int) *Conn {
	return &Conn{
		c:    c,
		max:  max,
		buf:  bytes.Clone(leftover),
		oob:  make([]byte, unix.CmsgSpace(MaxFiles*4)),
		next: make([]byte, 4096),
	}
}

// Read returns the next line without its newline. The slice is the caller's.
func (c *Conn) Read() ([]byte, error) {
	seen := 0 // so much of buf has no end of a line
	for {
		i := bytes.IndexByte(c.buf[seen:], '\n')
		if i += seen; i >= seen {
			if i+1 > c.max {
				return nil, ErrTooLong
			}
			line := bytes.Clone(c.buf[:i])
			c.buf = append(c.buf[:0], c.buf[i+1:]...)
			return line, nil
		}
		if seen = len(c.buf); seen >= c.max {
			return nil, ErrTooLong
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// fill does one recvmsg(2).
func (c *Conn) fill() error {
	n, oobn, flags, _, err := c.c.ReadMsgUnix(c.next, c.oob)
	if oobn > 0 {
		if err := c.receive(c.oob[:oobn]); err != nil {
			return err
		}
	}
	if flags&unix.MSG_CTRUNC != 0 {
		return errors.New("read line: control message truncated")
	}
	if n > 0 { // it is -1 beside an error
		c.buf = append(c.buf, c.next[:n]...)
	}
	if err != nil {
		return fmt.Errorf("read line: %w", err)
	}
	if n == 0 {
		return errEOF
	}
	return nil
}

// errEOF is io.EOF's role for recvmsg, which answers 0 at the end.
var errEOF = errors.New("read line: the other end is gone")

func (c *Conn) receive(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("read line: control message: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // not SCM_RIGHTS: holds no descriptor
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			c.files = append(c.files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	if len(c.files) > MaxFiles {
		return fmt.Errorf("read line: more than %d files wait", MaxFiles)
	}
	return nil
}

// Take returns the n oldest files that arrived; they are then the caller's to
// close.
func (c *Conn) Take(n int) ([]*os.File, error) {
	if n < 0 || n > len(c.files) {
		return nil, fmt.Errorf("take files: %d wanted, %d arrived", n, len(c.files))
	}
	taken := c.files[:n:n]
	c.files = c.files[n:]
	return taken, nil
}

// Write sends one line with files beside its first byte. The line must hold
// no newline. It gives up at the deadline; after an error the stream is
// unusable, because part of a line may have gone.
func (c *Conn) Write(line []byte, files []*os.File, deadline time.Time) error {
	if len(line)+1 > c.max || bytes.IndexByte(line, '\n') >= 0 {
		return ErrTooLong
	}
	var oob []byte
	if len(files) > 0 {
		fds, err := numbers(files)
		if err != nil {
			return err
		}
		oob = unix.UnixRights(fds...)
	}
	out := append(bytes.Clone(line), '\n')

	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.c.SetWriteDeadline(deadline); err != nil {
		return fmt.Errorf("write line: %w", err)
	}
	n, _, err := c.c.WriteMsgUnix(out, oob, nil)
	if err == nil && n < len(out) {
		_, err = c.c.Write(out[n:])
	}
	if err != nil {
		return fmt.Errorf("write line: %w", err)
	}
	return nil
}

// numbers reads descriptors without File.Fd, which would set the shared file
// description to blocking mode under the other holder's feet.
func numbers(files []*os.File) ([]int, error) {
	fds := make([]int, 0, len(files))
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			return nil, fmt.Errorf("write line: %w", err)
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return nil, fmt.Errorf("write line: %w", err)
		}
	}
	return fds, nil
}

// EndRead has Read fail from now on, also one under way. Writing goes on.
func (c *Conn) EndRead() error { return c.c.SetReadDeadline(time.Unix(1, 0)) }

// Close closes the socket. A Read under way returns; files that no one took
// are closed by [Conn.Discard], which the reader calls when it is done.
func (c *Conn) Close() error { return c.c.Close() }

// Discard closes the files that no one took. Only the reading goroutine may
// call it.
func (c *Conn) Discard() {
	for _, f := range c.files {
		_ = f.Close()
	}
	c.files = nil
}
