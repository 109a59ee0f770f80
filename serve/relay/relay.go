// Package relay connects the server with ports inside a sandbox, by pipes to a program there.
//
// [Relay] runs inside: it connects to a port of the loopback and copies between it and its two
// streams. [Conn] is the other end of them, as a connection.
//
// The promise: a connection is given only after the one inside stands. It knows no sandbox.
//
// Most readers want [Conn].
package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// dialled is the byte that says that a connection stands.
const dialled = '+'

// Conn makes a connection of the pipes to a program inside, once that one stands.
func Conn(ctx context.Context, in, out *os.File, end func() error) (net.Conn, error) {
	c := &pipeConn{in: in, out: out, end: sync.OnceValue(end)}
	defer context.AfterFunc(ctx, func() { _ = c.end() })() // the read below fails then
	var word [1]byte
	if _, err := io.ReadFull(c.out, word[:]); err != nil || word[0] != dialled {
		_ = c.end() // it is only ended
		return nil, errors.New("nothing listens")
	}
	return c, nil
}

// Relay connects to a port of this network and copies between it and the two streams. It
// runs inside the sandbox.
func Relay(port string, in io.Reader, out io.Writer) error {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("dial: %q is no port", port)
	}
	var c net.Conn
	for _, host := range []string{"127.0.0.1", "::1"} {
		if c, err = net.DialTimeout("tcp", net.JoinHostPort(host, strconv.FormatUint(n, 10)), 5*time.Second); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := out.Write([]byte{dialled}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(c, in) // its end is the other direction's to report
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
	}()
	_, err = io.Copy(out, c)
	return err
}

// pipeConn is a connection that a program inside relays.
type pipeConn struct {
	in, out *os.File
	end     func() error
}

func (c *pipeConn) Read(p []byte) (int, error)  { return c.out.Read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.in.Write(p) }
func (c *pipeConn) Close() error                { return c.end() }
func (c *pipeConn) LocalAddr() net.Addr         { return inside{} }
func (c *pipeConn) RemoteAddr() net.Addr        { return inside{} }

func (c *pipeConn) SetReadDeadline(t time.Time) error  { return c.out.SetReadDeadline(t) }
func (c *pipeConn) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }

func (c *pipeConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// inside is the address of a sandbox's own network.
type inside struct{}

func (inside) Network() string { return "sandbox" }
func (inside) String() string  { return "sandbox" }
