package corpus

import (
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func nw04() escape.Case {
	return escape.Case{
		ID: "NW-04", Class: "raw and ICMP", Attack: "raw, packet and ping sockets",
		Source: "OWASP of every sandbox: CAP_NET_RAW", Layers: []string{"seccomp", "capabilities"}, Contained: true,
		Tries: func(in escape.Inside) []escape.Try {
			var list []call
			for _, s := range []struct {
				name             string
				family, typ, pro uintptr
			}{
				{"raw ICMP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, {"raw IP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW}, {"raw TCP", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP},
				{"raw ICMPv6", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6}, {"packet", unix.AF_PACKET, unix.SOCK_RAW, 0x0300}, {"packet datagram", unix.AF_PACKET, unix.SOCK_DGRAM, 0x0300},
			} {
				list = append(list, call{name: s.name, nr: unix.SYS_SOCKET, args: []uintptr{s.family, s.typ, s.pro}, held: errnos(syscall.EPERM, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT)})
			}
			ping := call{name: "ping", nr: unix.SYS_SOCKET, args: []uintptr{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, held: errnos(syscall.EPERM, syscall.EACCES, syscall.EPROTONOSUPPORT)}
			if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP); err != nil {
				ping.control, ping.why = escape.ByNobody, "this host's ping_group_range lets nobody"
			} else {
				unix.Close(fd)
			}
			return calls(append(list, ping)...)
		},
	}
}
