package corpus

import (
	"encoding/binary"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func nw44() escape.Case {
	return escape.Case{
		ID: "NW-44", Class: "net admin", Attack: "change addresses, routes, links and packet rules; sysctl",
		Source: "HARDENING 5.1", Layers: []string{"capabilities", "seccomp", "view"}, Contained: true,
		Tries: func(in escape.Inside) []escape.Try {
			route := func(typ uint16, body string) func() error {
				return func() error {
					fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					b := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
					b = binary.NativeEndian.AppendUint16(b, typ)
					b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
					b = append(append(b, make([]byte, 8)...), body...)
					if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
						return err
					}
					got := make([]byte, 512)
					n, err := unix.Read(fd, got)
					if err != nil {
						return err
					}
					if n >= 20 {
						if code := int32(binary.NativeEndian.Uint32(got[16:])); code != 0 {
							return syscall.Errno(-code)
						}
					}
					return nil
				}
			}
			lo := string(binary.NativeEndian.AppendUint32(nil, 1))
			link := "\x00\x00\x00\x00" + lo + "\x01\x00\x00\x00\x01\x00\x00\x00"
			addr := "\x02\x20\x00\x00" + lo + "\x08\x00\x02\x00\x0a\x01\x02\x03"
			rt := "\x02\x20\x00\x00\xfe\x03\x00\x01\x00\x00\x00\x00" + "\x08\x00\x01\x00\x0a\x01\x02\x03" + "\x08\x00\x04\x00" + lo
			some := errnos(syscall.EEXIST, syscall.EINVAL, syscall.ENODEV, syscall.ENETDOWN, syscall.EOPNOTSUPP, syscall.ENETUNREACH)
			return []escape.Try{
				{Name: "set a link up", Do: route(unix.RTM_NEWLINK, link), Open: some},
				{Name: "add an address", Do: route(unix.RTM_NEWADDR, addr), Open: some},
				{Name: "add a route", Do: route(unix.RTM_NEWROUTE, rt), Open: some},
				{Name: "remove the gate's route", Do: route(unix.RTM_DELROUTE, "\x02\x00\x00\x00\xff\x03\xfe\x02\x00\x00\x00\x00"), Open: append(some, syscall.ESRCH)},
				{Name: "talk to the packet filter", Held: errnos(syscall.EPERM, syscall.EPROTONOSUPPORT), Do: func() error {
					fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
					if err == nil {
						unix.Close(fd)
					}
					return err
				}},
				{Name: "route_localnet", Control: escape.ByRoot, Do: func() error { return openFor("/proc/sys/net/ipv4/conf/all/route_localnet", os.O_WRONLY) }},
				{Name: "let everybody ping", Control: escape.ByRoot, Do: func() error { return openFor("/proc/sys/net/ipv4/ping_group_range", os.O_WRONLY) }},
				// ENOPROTOOPT: gVisor knows no such option.
				{Name: "bind a device", Held: errnos(syscall.EPERM, syscall.ENOPROTOOPT), Open: errnos(syscall.ENODEV), Do: func() error {
					fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
					if err != nil {
						return err
					}
					defer unix.Close(fd)
					if _, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK); err != nil {
						return err
					}
					return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1)
				}},
			}
		},
	}
}
