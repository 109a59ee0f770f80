package dial

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/egress/internal/guard"
	"cloister/egress/internal/sock"
)

// What stays on this host is not sent by timers: neither what is dialled on
// loopback nor what a gate accepts. Where the host's own default is Reno this
// proves nothing; it is BBR where the figures of docs/performance.md come from.
func TestUnpaced(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sock.Unpaced(l)
	dialled, err := (&Dialer{Guard: guard.New()}).one(t.Context(), netip.MustParseAddrPort(l.Addr().String()), true, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	for what, c := range map[string]*net.TCPConn{"dialled": dialled, "accepted": accepted.(*net.TCPConn)} {
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var name string
		var got error
		err = raw.Control(func(fd uintptr) { name, got = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) })
		if err != nil || got != nil || name != "reno" {
			t.Errorf("%s: congestion control %q, %v, %v", what, name, err, got)
		}
	}
}
