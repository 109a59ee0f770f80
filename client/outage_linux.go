package client

import (
	"os"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// perRound bounds what one look at a socket refuses; the next is 100 ms away.
const perRound = 1024

// refuseWaiting answers what waits at the gate while no guardian serves it:
// connections are reset, questions get SERVFAIL. Nothing could leave anyway;
// so programs hear it at once instead of waiting for their own time-outs
// (RS-01). It never blocks.
func (l Listeners) refuseWaiting() {
	for _, f := range []*os.File{l.TCP4, l.TCP6, l.DNSTCP, l.DNSTCP6} {
		each(f, refuseConnection)
	}
	for _, f := range []*os.File{l.DNS, l.DNS6} {
		each(f, refuseQuestion)
	}
}

// each repeats one refusal on a socket until nothing waits there. The socket is
// shared with guardians before and after, who have it non-blocking too.
func each(f *os.File, refuse func(fd int) error) {
	if f == nil {
		return
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return // closed: the session ends
	}
	_ = raw.Control(func(fd uintptr) {
		if unix.SetNonblock(int(fd), true) != nil {
			return
		}
		for range perRound {
			if refuse(int(fd)) != nil {
				return // EAGAIN, or a socket that the next guardian will complain about
			}
		}
	})
}

func refuseConnection(fd int) error {
	c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	if err != nil {
		return err
	}
	_ = unix.SetsockoptLinger(c, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // else it is a plain close
	return unix.Close(c)
}

// refuseQuestion turns a question round: RFC 1035 4.1.1, response and recursion
// available, no truncation, code 2; its sections stay.
func refuseQuestion(fd int) error {
	var packet, control [1500]byte
	n, oob, _, from, err := unix.Recvmsg(fd, packet[:], control[:], unix.MSG_DONTWAIT)
	if err != nil {
		return err
	}
	if n < 12 || packet[2]&0x80 != 0 {
		return nil // no question
	}
	packet[2] = packet[2]&0x79 | 0x80
	packet[3] = 0x80 | 2
	// A program that will not take its answer gets none.
	_ = unix.Sendmsg(fd, packet[:n], replyFrom(control[:oob], from), from, unix.MSG_DONTWAIT)
	return nil
}

// replyFrom makes the answer come from the address that was asked, which the
// guardian's sockets tell.
func replyFrom(control []byte, to unix.Sockaddr) []byte {
	if _, v6 := to.(*unix.SockaddrInet6); v6 {
		var c ipv6.ControlMessage
		if c.Parse(control) == nil && c.Dst != nil {
			return (&ipv6.ControlMessage{Src: c.Dst}).Marshal()
		}
	}
	var c ipv4.ControlMessage
	if c.Parse(control) == nil && c.Dst != nil {
		return (&ipv4.ControlMessage{Src: c.Dst}).Marshal()
	}
	return nil
}
