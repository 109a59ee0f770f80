// Package origin says beside a connection where it was going: a unix socket's stream that
// begins with an address, for gates that are not on this host.
//
// The promise: what [Dial] was given is what the listener's connection says, before any of
// its bytes are read. Whoever may connect to the socket may say any address: it must lie
// where its owner alone may.
//
// Most readers want [Of], [Dial] and [Listener].
package origin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// within bounds the time until a stream has said where it goes.
const within = 10 * time.Second

// Dial opens a stream to the socket at path that was going to an address.
func Dial(ctx context.Context, path string, to netip.AddrPort) (*net.UnixConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("not a unix socket"), c.Close())
	}
	text := to.String()
	if _, err := u.Write(append([]byte{byte(len(text))}, text...)); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return u, nil
}

// Listener accepts such streams.
type Listener struct{ net.Listener }

// Accept gives a Conn.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("accept on %s: not a unix socket", l.Addr()), c.Close())
	}
	conn := &Conn{UnixConn: u}
	conn.to = sync.OnceValues(conn.read)
	return conn, nil
}

// Conn is a stream that says where it was going, to [Of], which must be asked before the
// first Read.
type Conn struct {
	*net.UnixConn
	to func() (netip.AddrPort, error)
}

func (c *Conn) read() (to netip.AddrPort, err error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return to, err
	}
	size := make([]byte, 1)
	if _, err = io.ReadFull(c.UnixConn, size); err == nil {
		text := make([]byte, size[0])
		if _, err = io.ReadFull(c.UnixConn, text); err == nil {
			to, err = netip.ParseAddrPort(string(text))
		}
	}
	if err != nil {
		return to, fmt.Errorf("original destination: %w", err)
	}
	return to, c.SetReadDeadline(time.Time{})
}
