package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
)

// within connects to a destination that is served in this process: over loopback,
// since the rest of the way is made for TCP. The listener takes one connection, and
// only the one that was made here.
func within(ctx context.Context, serve func(net.Conn)) (*net.TCPConn, netip.AddrPort, error) {
	none := netip.AddrPort{}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, none, err
	}
	defer ln.Close()
	near, err := (&net.Dialer{}).DialContext(ctx, "tcp", ln.Addr().String())
	if err != nil {
		return nil, none, err
	}
	for {
		far, err := ln.Accept()
		if err != nil {
			return nil, none, errors.Join(err, near.Close())
		}
		if far.RemoteAddr().String() != near.LocalAddr().String() {
			_ = far.Close() // of another process: it gets nothing
			continue
		}
		serve(far)
		tcp, ok := near.(*net.TCPConn)
		if !ok {
			return nil, none, errors.Join(errors.New("dial: no TCP connection"), near.Close())
		}
		return tcp, netip.AddrPort{}, nil
	}
}
