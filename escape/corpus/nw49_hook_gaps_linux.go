package corpus

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

// connected waits until a connection that is under way is there, or says why it is not.
func connected(fd int) error {
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 3000); err != nil {
		return err
	}
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = syscall.Errno(code)
	}
	return err
}

func nw49() escape.Case {
	return escape.Case{
		ID: "NW-49", Class: "gaps of connect hooks", Attack: "IPv4-mapped addresses, an unreadable address, AF_UNSPEC, sendmsg with a name, TCP fast open",
		Source: "Leash source; KubeArmor #1254", Layers: []string{"net", "policy"},
		Tries: func(in escape.Inside) []escape.Try {
			raw4 := func(flags int) func() error {
				return func() error {
					addr := [4]byte{203, 0, 113, 51}
					port := 443
					if in.Control {
						addr, port = [4]byte{127, 0, 0, 1}, in.Port
					}
					fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3}); err != nil {
						return err
					}
					text := []byte("hello NW-49\r\n\r\n")
					err = unix.Sendto(fd, text, flags, &unix.SockaddrInet4{Addr: addr, Port: port})
					if errors.Is(err, unix.EINPROGRESS) { // gVisor does not wait for the connection
						if err = connected(fd); err == nil {
							_, err = unix.Write(fd, text)
						}
					}
					if err != nil {
						return err
					}
					buf := make([]byte, 64)
					n, err := unix.Read(fd, buf)
					switch {
					case err != nil:
						return err
					case n == 0:
						return escape.ErrRefused
					}
					return nil
				}
			}
			return []escape.Try{
				net1("fast open", raw4(unix.MSG_FASTOPEN|unix.MSG_NOSIGNAL)),
				net1("IPv4-mapped", func() error {
					return talk("tcp", to(in, "[::ffff:203.0.113.50]:80"), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				}),
				net1("a datagram with a name", func() error { return datagram(to(in, "203.0.113.52:999"), "hello NW-49") }),
				{Name: "an unreadable address", Held: errnos(syscall.EFAULT), Control: escape.ByNobody, Why: "it is refused everywhere", Do: func() error {
					fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					if _, _, errno := syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), 1, 16); errno != 0 {
						return errno
					}
					return nil
				}},
				net1("AF_UNSPEC, then elsewhere", func() error {
					c, err := net.Dial("udp", to(in, "203.0.113.53:999"))
					if err != nil {
						return plain(err)
					}
					defer c.Close()
					return converse(c, "hello NW-49")
				}),
			}
		},
	}
}
