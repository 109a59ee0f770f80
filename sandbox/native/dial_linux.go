package native

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox/gate"
)

// dialWithin bounds one connection. Both ends are on one loopback: it waits only
// where the listener's backlog is full.
const dialWithin = 5 * time.Second

// Dial connects to a port of the inside's loopback: 127.0.0.1, and ::1 where
// nothing listens there, as a browser does with localhost.
//
// A socket belongs to the network namespace that it was made in, whoever connects
// it. A helper makes one inside and hands it out; only user and network namespace
// are entered, so that nothing inside sees the helper.
func (b *box) Dial(_ context.Context, port uint16) (net.Conn, error) {
	c, err := b.dial(unix.AF_INET, &unix.SockaddrInet4{Port: int(port),
		Addr: netip.AddrFrom4([4]byte{127, 0, 0, 1}).As4()})
	if errors.Is(err, unix.ECONNREFUSED) && gate.HaveIPv6() {
		c, err = b.dial(unix.AF_INET6, &unix.SockaddrInet6{Port: int(port), Addr: netip.IPv6Loopback().As16()})
	}
	if err != nil {
		return nil, fmt.Errorf("reach port %d inside: %w", port, err)
	}
	return c, nil
}

// DialPeer connects to a port at the cloister's own address among those beside it.
func (b *box) DialPeer(_ context.Context, port uint16) (net.Conn, error) {
	if !b.address.IsValid() {
		return nil, errors.New("reach the cloister from beside it: it has no address there")
	}
	c, err := b.dial(unix.AF_INET, &unix.SockaddrInet4{Port: int(port), Addr: b.address.As4()})
	if err != nil {
		return nil, fmt.Errorf("reach port %d inside: %w", port, err)
	}
	return c, nil
}

func (b *box) dial(family int, to unix.Sockaddr) (net.Conn, error) {
	fd, err := b.socket(family)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "published")
	defer f.Close() // the connection has a descriptor of its own
	if err := connectTo(fd, to); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

func connectTo(fd int, to unix.Sockaddr) error {
	if err := unix.Connect(fd, to); err != unix.EINPROGRESS {
		return err
	}
	for deadline := time.Now().Add(dialWithin); ; {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(ready, max(0, int(time.Until(deadline).Milliseconds())))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return unix.ETIMEDOUT
		}
		code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		return err
	}
}

// socket has a TCP socket made inside.
func (b *box) socket(family int) (int, error) {
	pidfd, err := openCommand(b.pid)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pidfd)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open socket pair: %w", err)
	}
	defer unix.Close(pair[0])
	err = fetch(pidfd, pair[1], family, b.lent.namespaces(unix.CLONE_NEWUSER|unix.CLONE_NEWNET))
	unix.Close(pair[1])
	if err != nil {
		return -1, err
	}
	fds, err := receive(pair[0], 1)
	if err != nil {
		return -1, err
	}
	return fds[0], nil
}

// fetch runs the helper: it enters, makes the socket and sends it.
func fetch(pidfd, control, family int, spaces uintptr) error {
	p, st := newProgram(), &childState{status: -1}
	space := make([]byte, unix.CmsgSpace(4))
	h := cmsgAt(space)
	h.Level, h.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	h.SetLen(unix.CmsgLen(4))
	cell := &cmsgInts(space, 1)[0]
	p.keep = append(p.keep, space)
	p.sys("enter the network", unix.SYS_SETNS, pidfd, spaces)
	p.sys("open socket", unix.SYS_SOCKET, family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0).to(cell)
	p.send("hand out the socket", control, space)
	p.sys("end", unix.SYS_EXIT_GROUP, 0)

	runtime.LockOSThread()
	syscall.ForkLock.Lock()
	pid, errno := spawn(0, p, st)
	syscall.ForkLock.Unlock()
	runtime.UnlockOSThread()
	if errno != 0 {
		return fmt.Errorf("start a helper: %w", errno)
	}
	var ws unix.WaitStatus
	for {
		if _, err := unix.Wait4(pid, &ws, 0, nil); err != unix.EINTR {
			break
		}
	}
	runtime.KeepAlive(st)
	p.alive()
	if ws.ExitStatus() != 0 {
		step := "end"
		if i := int(st.report.Index); i >= 0 && i < len(p.setup[partView]) {
			step = p.setup[partView][i].name
		}
		return fmt.Errorf("%s: %w", step, syscall.Errno(st.report.Errno))
	}
	return nil
}
