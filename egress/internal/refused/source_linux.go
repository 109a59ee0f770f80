package refused

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Socket is the netlink socket of a gate's log. Of a gate on another host it is a socket by which
// the kernel's messages there come (sandbox/kubernetes).
type Socket struct {
	file   *os.File
	raw    syscall.RawConn
	buf    []byte
	relays bool
}

// Open reads by a descriptor of its own of the same socket.
func Open(f *os.File) (*Socket, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("open the log of refusals: %w", err)
	}
	own, domain, derr := -1, 0, error(nil)
	err = raw.Control(func(fd uintptr) {
		if domain, derr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); derr != nil {
			return
		}
		if own, derr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); derr == nil {
			derr = unix.SetNonblock(own, true)
		}
	})
	if err = errors.Join(err, derr); err != nil {
		return nil, fmt.Errorf("open the log of refusals: %w", err)
	}
	s := &Socket{file: os.NewFile(uintptr(own), "refusals"), buf: make([]byte, 4096), relays: domain == unix.AF_UNIX}
	if s.raw, err = s.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the log of refusals: %w", err), s.file.Close())
	}
	return s, nil
}

// Close closes this descriptor.
func (s *Socket) Close() error { return s.file.Close() }

// Wait returns when the kernel has something to tell, ctx has ended, or at a time.
func (s *Socket) Wait(ctx context.Context, until time.Time) error {
	if err := s.file.SetReadDeadline(until); err != nil {
		return fmt.Errorf("wait for the log of refusals: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err := s.raw.Read(func(fd uintptr) bool {
		_, _, err := unix.Recvfrom(int(fd), s.buf[:1], unix.MSG_DONTWAIT|unix.MSG_PEEK)
		return !errors.Is(err, unix.EAGAIN)
	})
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("wait for the log of refusals: %w", err)
	}
	return nil
}

// Next gives the next message of the kernel's. That some did not fit into its queue
// (ENOBUFS) is what Lost tells.
func (s *Socket) Next() (text []byte, ok bool) {
	_ = s.raw.Control(func(fd uintptr) {
		for {
			n, from, err := unix.Recvfrom(int(fd), s.buf, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil {
				return
			}
			if kernel, is := from.(*unix.SockaddrNetlink); is && kernel.Pid == 0 || s.relays {
				text, ok = s.buf[:n], true
				return
			}
		}
	})
	return text, ok
}

// Lost is how many messages the kernel had no room for since the socket was made:
// SK_MEMINFO_DROPS of SO_MEMINFO.
func (s *Socket) Lost() (n uint32, err error) {
	var info [memoryWords]uint32
	if cerr := s.raw.Control(func(fd uintptr) { err = memory(fd, &info) }); cerr != nil {
		err = cerr
	}
	if err != nil {
		return 0, fmt.Errorf("count what the log of refusals lost: %w", err)
	}
	return info[memoryWords-1], nil
}
