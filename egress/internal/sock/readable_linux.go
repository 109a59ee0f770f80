package sock

import (
	"net"

	"golang.org/x/sys/unix"
)

// WaitReadable waits until a read of c would give something, without a buffer
// of its own; it reports whether there was a wait. A connection that is not the
// kernel's is said to be readable: its Read waits.
func WaitReadable(c net.Conn) (waited bool, err error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false, err
	}
	err = raw.Read(func(fd uintptr) bool {
		if waited {
			return true // a wake for nothing is waited for in Read
		}
		state, _ := peekState(int(fd))
		waited = state == stateSilent
		return !waited
	})
	return waited, err
}

type peerState uint8

const (
	stateSilent peerState = iota // open, nothing to read
	stateBytes
	stateEnded
)

// peekState looks at a socket without waiting.
func peekState(fd int) (peerState, error) {
	var b [1]byte
	for {
		n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return stateSilent, nil
		case err != nil:
			return stateEnded, err
		case n == 0:
			return stateEnded, nil
		}
		return stateBytes, nil
	}
}

// stillIdle reports whether a kept connection is open with nothing unasked in it.
func stillIdle(c net.Conn) bool {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return true
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	idle := false
	err = raw.Control(func(fd uintptr) {
		state, _ := peekState(int(fd))
		idle = state == stateSilent
	})
	return err == nil && idle
}

// tcpEstablished is the state of a connection that both sides have open (tcp_states.h).
const tcpEstablished = 1

// Ended reports whether the peer of c has ended it, also where what it sent was not read. One
// that is not the kernel's is said to be open.
func Ended(c net.Conn) bool {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true // it is closed on this side
	}
	ended := false
	err = raw.Control(func(fd uintptr) {
		info, ierr := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		ended = ierr == nil && info.State != tcpEstablished
	})
	return ended || err != nil
}
