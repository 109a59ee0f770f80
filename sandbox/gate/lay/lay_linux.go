// Package lay makes a gate in the network namespace of the calling thread, by the messages
// and sockets of package gate. The first answer of the kernel that is an error ends it. Native
// does the same as a list of system calls. Most readers want [Converse] and [Listen].
package lay

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"cloister/sandbox/gate"
)

// Converse sends netlink messages and requires an answer without an error for
// each that asked for one.
func Converse(family int, text []byte) error {
	fd, err := Say(family, text)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Say is a conversation whose socket stays open.
func Say(family int, text []byte) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return -1, err
	}
	if err := exchange(fd, text); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func exchange(fd int, text []byte) error {
	if err := unix.Sendto(fd, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 1024)
	for range gate.Answers(text) {
		n, _, err := unix.Recvfrom(fd, answer, unix.MSG_DONTWAIT)
		if err != nil {
			return err
		}
		if n < unix.SizeofNlMsghdr+4 {
			return errors.New("the kernel's answer is too short")
		}
		if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
			return unix.Errno(-code)
		}
	}
	return nil
}

// Listen opens one of the gate's sockets.
func Listen(s gate.Socket) (*os.File, error) {
	fd, err := unix.Socket(s.Family, s.Type|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), s.Name)
	var addr unix.Sockaddr = &unix.SockaddrInet4{Port: int(s.Addr.Port()), Addr: as4(s)}
	if s.Family == unix.AF_INET6 {
		addr = &unix.SockaddrInet6{Port: int(s.Addr.Port()), Addr: s.Addr.Addr().As16()}
		// A local route makes an IPv6 address reachable, not assigned.
		err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1))
	}
	if err == nil {
		err = unix.Bind(fd, addr)
	}
	if err == nil && s.Type == unix.SOCK_STREAM {
		err = unix.Listen(fd, 1024)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func as4(s gate.Socket) (a [4]byte) {
	if s.Addr.Addr().Is4() {
		a = s.Addr.Addr().As4()
	}
	return a
}
