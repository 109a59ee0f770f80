package corpus

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func nw08() escape.Case {
	return escape.Case{
		ID: "NW-08", Class: "socket families", Attack: "every family but unix, inet, inet6 and routes; every protocol but TCP and UDP; high bits in the family",
		Source: "CVE-2026-31431 (AF_ALG); firedancer #9185 (upper bits)", Layers: []string{"seccomp"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			add := func(name string, family, typ, pro uintptr) {
				c := call{name: name, nr: unix.SYS_SOCKET, args: []uintptr{family, typ, pro}, held: errnos(syscall.EPERM, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT)}
				fd, err := unix.Socket(int(int32(family)), int(typ), int(pro))
				switch {
				case err == nil:
					unix.Close(fd)
				case errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ESOCKTNOSUPPORT) || errors.Is(err, unix.EINVAL):
					c.control, c.why = escape.ByNobody, "this kernel has not got it"
				case errors.Is(err, unix.EPERM):
					c.control = escape.ByRoot
				}
				out = append(out, c.try())
			}
			for family := uintptr(0); family < 48; family++ {
				switch family {
				case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK:
					continue
				}
				typ := uintptr(unix.SOCK_DGRAM)
				if family == unix.AF_ALG || family == unix.AF_XDP {
					typ = unix.SOCK_SEQPACKET
				}
				if family == unix.AF_XDP || family == unix.AF_CAN {
					typ = unix.SOCK_RAW
				}
				if family == unix.AF_VSOCK {
					typ = unix.SOCK_STREAM
				}
				add(fmt.Sprintf("family %d", family), family, typ, 0)
			}
			for pro := uintptr(1); pro < 24; pro++ {
				add(fmt.Sprintf("netlink %d", pro), unix.AF_NETLINK, unix.SOCK_RAW, pro)
			}
			for _, p := range []uintptr{132, 262, 33, 136, 1, 255} {
				add(fmt.Sprintf("inet protocol %d", p), unix.AF_INET, unix.SOCK_STREAM, p)
			}
			return append(out, call{name: "AF_VSOCK by high bits", nr: unix.SYS_SOCKET, args: []uintptr{unix.AF_UNIX | 1<<32, unix.SOCK_STREAM, 0}, held: errnos(syscall.EAFNOSUPPORT)}.try())
		},
	}
}
