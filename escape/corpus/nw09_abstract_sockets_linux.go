package corpus

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func nw09() escape.Case {
	return escape.Case{
		ID: "NW-09", Class: "abstract sockets", Attack: "connect to an abstract unix socket of the host, find it in /proc/net/unix",
		Source: "CVE-2020-15257", Layers: []string{"net", "landlock"},
		Tries: func(in escape.Inside) []escape.Try {
			return []escape.Try{
				net1("connect", func() error { return talk("unix", in.Abstract, "hello NW-09") }),
				net1("send a datagram", func() error {
					fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					return unix.Connect(fd, &unix.SockaddrUnix{Name: in.Abstract})
				}),
				on("find it in /proc/net/unix", func() error {
					text, err := os.ReadFile("/proc/net/unix")
					if err != nil {
						return err
					}
					if !strings.Contains(string(text), in.Abstract) {
						return escape.ErrNothing
					}
					return nil
				}),
			}
		},
	}
}
