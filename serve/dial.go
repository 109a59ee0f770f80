package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// Dial connects to a TCP port of the sandbox's loopback, through a program inside: a
// second process cannot enter a network that another one owns.
func (s *Sandbox) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	if err := s.opened(ctx, port); err != nil {
		return nil, err
	}
	p, err := s.helper(ctx, "dial", strconv.Itoa(int(port)))
	if err != nil {
		return nil, err
	}
	c := &pipeConn{in: p.In, out: p.Out, end: sync.OnceValue(p.Close)}
	defer context.AfterFunc(ctx, func() { _ = c.end() })() // the read below fails then
	var word [1]byte
	if _, err := io.ReadFull(c.out, word[:]); err != nil || word[0] != dialled {
		_ = c.end() // it is only ended
		return nil, fmt.Errorf("dial port %d of the sandbox: nothing listens", port)
	}
	return c, nil
}

// portAgain is how long a port's record stands for further requests.
const portAgain = time.Minute

// opened records that requests reach a port, once a minute.
func (s *Sandbox) opened(ctx context.Context, port uint16) error {
	s.mu.Lock()
	known := time.Since(s.ports[port]) < portAgain
	s.mu.Unlock()
	if known {
		return nil
	}
	if err := s.recorded(ctx, ActPort, "dial", strconv.Itoa(int(port))); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ports == nil {
		s.ports = map[uint16]time.Time{}
	}
	s.ports[port] = time.Now()
	return nil
}

// dialled is the byte that says that a connection stands.
const dialled = '+'

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
