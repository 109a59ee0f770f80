package sock

import (
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// Unpaced makes what a gate accepts send at once: it stays on this host.
func Unpaced(l net.Listener) {
	c, ok := l.(syscall.Conn)
	if !ok {
		return // a TCP stack of its own
	}
	if raw, err := c.SyscallConn(); err == nil { // fails on a closed socket only
		unpace(raw)
	}
}

// UnpacedTo does the same to a socket before it connects, where it will stay on
// this host.
func UnpacedTo(to netip.Addr, c syscall.RawConn) {
	if to.Unmap().IsLoopback() {
		unpace(c)
	}
}

// unpace chooses Reno, which every kernel has. The host's default may be BBR, which
// sends by timers: over loopback these cost more than the bytes do
// (docs/decisions/0026). Where the host lets no one choose Reno
// (net.ipv4.tcp_allowed_congestion_control) the socket is slower, and as good.
func unpace(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) { // as above
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
}
