package client

import (
	"context"
	"os"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

const (
	// perRound bounds what one look at a socket refuses.
	perRound = 1024
	// between is from one round of refusals to the next, however much comes.
	between = 5 * time.Millisecond
	// glance is how long the end of a session may go unseen.
	glance = 20 * time.Millisecond
)

// refuse refuses what waits at the gate, and what comes in so long or until ctx
// ends: a program notices the outage when it asks, and not when a person next
// looks for a guardian, which a busy machine puts off.
func (l Listeners) refuse(ctx context.Context, long time.Duration) {
	sockets := l.sockets()
	end := time.Now().Add(long)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for left := long; left > 0; left = time.Until(end) {
		wait := between
		switch n, err := unix.Poll(sockets, int(min(left, glance).Milliseconds())); {
		case n > 0:
			if !l.refuseWaiting() {
				wait = glance // out of descriptors, as a rule: poll says at once that it waits
			}
		case err == nil:
			wait = 0 // the glance was the pause
		}
		pause.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// sockets are those of the gate that wait for an answer, as poll wants them. They
// stay open while their link looks for a guardian.
func (l Listeners) sockets() (out []unix.PollFd) {
	l.Refusals = nil // the next guardian reads what the kernel keeps of it
	_, files := l.list()
	for _, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			continue // closed: the session ends
		}
		_ = raw.Control(func(fd uintptr) { out = append(out, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}) })
	}
	return out
}

// refuseWaiting answers what waits at the gate while no guardian serves it:
// connections are reset, questions get SERVFAIL. Nothing could leave anyway;
// so programs hear it at once instead of waiting for their own time-outs
// (RS-01). It never blocks, and reports whether it took anything.
func (l Listeners) refuseWaiting() (took bool) {
	for _, f := range []*os.File{l.TCP4, l.TCP6, l.DNSTCP, l.DNSTCP6, l.Streams, l.DNSStreams} {
		took = each(f, refuseConnection) || took
	}
	for _, f := range []*os.File{l.DNS, l.DNS6} {
		took = each(f, refuseQuestion) || took
	}
	return took
}

// each repeats one refusal on a socket until nothing waits there. The socket is
// shared with guardians before and after, who have it non-blocking too.
func each(f *os.File, refuse func(fd int) error) (took bool) {
	if f == nil {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false // closed: the session ends
	}
	_ = raw.Control(func(fd uintptr) {
		if unix.SetNonblock(int(fd), true) != nil {
			return
		}
		for range perRound {
			if refuse(int(fd)) != nil {
				return // EAGAIN, or a socket that the next guardian will complain about
			}
			took = true
		}
	})
	return took
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
