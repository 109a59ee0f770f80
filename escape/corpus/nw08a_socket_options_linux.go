package corpus

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func nw08a() escape.Case {
	return escape.Case{
		ID: "NW-08a", Class: "protocols by option", Attack: "make an allowed socket speak what no socket may be made for: the kernel's TLS, SMC and IPsec over TCP, IPsec and L2TP within UDP",
		Source: "CVE-2023-0461 (TCP_ULP); the class of NW-08", Layers: []string{"seccomp"},
		Tries: func(escape.Inside) []escape.Try {
			held := []error{unix.EPERM}
			var out []escape.Try
			for _, name := range []string{"tls", "smc", "espintcp"} {
				// ENOENT is the word of a kernel that was asked, and has none of that name.
				out = append(out, escape.Try{Name: "TCP_ULP " + name, Do: func() error { return upper(name) }, Held: held, Open: []error{unix.ENOENT, unix.EPROTO}})
			}
			for kind, name := range map[int]string{unix.UDP_ENCAP_ESPINUDP: "IPsec", unix.UDP_ENCAP_L2TPINUDP: "L2TP"} {
				out = append(out, escape.Try{Name: name + " in UDP", Do: func() error { return carries(kind) }, Held: held, Open: []error{unix.ENOPROTOOPT}})
			}
			return out
		},
	}
}

// upper gives a connection a protocol above TCP.
func upper(name string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var set error
	return errors.Join(raw.Control(func(fd uintptr) { set = unix.SetsockoptString(int(fd), unix.SOL_TCP, unix.TCP_ULP, name) }), set)
}

// carries makes a socket of UDP carry another protocol.
func carries(kind int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_ENCAP, kind)
}
