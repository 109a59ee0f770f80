package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/api"
	"cloister/internal/twoway"
	"cloister/sandbox"
)

// maxCallers bounds the connections that one cloister's published ports hold at
// once; a further one waits.
const maxCallers = 256

// ParsePublished reads [HOST:]PORT, where HOST is a port of this machine's
// 127.0.0.1, the same one unless said. The address itself may stand before it;
// no other can, since what an agent serves is not for the network.
func ParsePublished(text string) (api.Published, error) {
	none := api.Published{}
	rest := text
	if i := strings.LastIndexByte(text, ':'); i > 0 && strings.ContainsAny(text[:i], ".:[abcdefghijklmnopqrstuvwxyz") {
		host, tail, _ := strings.Cut(text, ":")
		if strings.HasPrefix(text, "[") {
			host, tail = text[:i], text[i+1:]
		}
		if addr, err := netip.ParseAddr(host); host != "localhost" &&
			(err != nil || addr != netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
			return none, fmt.Errorf("%q: ports are published on 127.0.0.1 alone", text)
		}
		rest = tail
	}
	first, second, two := strings.Cut(rest, ":")
	if !two {
		second = first
	}
	host, err := parsePort(first)
	inside, err2 := parsePort(second)
	if err := errors.Join(err, err2); err != nil {
		return none, fmt.Errorf("%q: a port is a number from 1 to 65535", text)
	}
	if api.WindowPort(host) {
		return none, fmt.Errorf("%q: %d to %d of this machine are the window's: publish at another, such as %d:%d", text,
			api.WindowFirst, api.WindowLast, host-api.WindowFirst+10000, inside)
	}
	return api.Published{HostPort: host, Port: inside}, nil
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err == nil && (n == 0 || text[0] < '1' || text[0] > '9') {
		err = strconv.ErrRange
	}
	return uint16(n), err
}

// publication is the published ports of one cloister: listeners of the host.
type publication struct {
	listeners []net.Listener
	ports     []api.Published
	slots     chan struct{}
	work      sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	over  bool
}

// publish opens the listeners. Who connects before the command runs waits.
func publish(ctx context.Context, ports []api.Published) (*publication, error) {
	if len(ports) == 0 {
		return nil, nil
	}
	p := &publication{ports: ports, slots: make(chan struct{}, maxCallers), conns: map[net.Conn]bool{}}
	var config net.ListenConfig
	for _, port := range ports {
		l, err := config.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port.HostPort))
		if err != nil {
			p.close()
			return nil, &unpublished{port, err}
		}
		p.listeners = append(p.listeners, l)
	}
	return p, nil
}

// unpublished says that a port of the host cannot be had.
type unpublished struct {
	port api.Published
	err  error
}

func (u *unpublished) Error() string {
	if call, ok := errors.AsType[*net.OpError](u.err); ok {
		return fmt.Sprintf("publish 127.0.0.1:%d: %v", u.port.HostPort, errors.Unwrap(call.Err))
	}
	return fmt.Sprintf("publish 127.0.0.1:%d: %v", u.port.HostPort, u.err)
}

func (u *unpublished) Unwrap() error { return u.err }

// Hints are the words of what to do.
func (u *unpublished) Hints() []string {
	return []string{fmt.Sprintf("another port of this machine: --publish OTHER:%d", u.port.Port)}
}

// serve passes connections on to the box until close.
func (p *publication) serve(ctx context.Context, box sandbox.Box) error {
	if p == nil {
		return nil
	}
	inside, ok := box.(sandbox.Dialer)
	if !ok {
		return errors.New("publish: this isolation cannot publish ports")
	}
	for i, l := range p.listeners {
		p.work.Go(func() { p.accept(ctx, l, inside, p.ports[i].Port) })
	}
	return nil
}

func (p *publication) accept(ctx context.Context, l net.Listener, inside sandbox.Dialer, port uint16) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, or a caller that left: the next may do better.
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		p.slots <- struct{}{}
		p.work.Go(func() {
			defer func() { <-p.slots }()
			p.pass(ctx, conn, inside, port)
		})
	}
}

// pass connects one caller to the port inside, each direction to its own end.
func (p *publication) pass(ctx context.Context, caller net.Conn, inside sandbox.Dialer, port uint16) {
	if !p.hold(caller) {
		return
	}
	defer p.drop(caller)
	served, err := inside.Dial(ctx, port)
	if err != nil {
		twoway.Refuse(caller)
		return
	}
	if !p.hold(served) {
		return
	}
	defer p.drop(served)
	twoway.Join(caller, served)
}

// hold enters a connection, which close will end; one that comes too late is
// closed.
func (p *publication) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		_ = c.Close()
		return false
	}
	p.conns[c] = true
	return true
}

func (p *publication) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

// close ends every connection and waits for those that serve them.
func (p *publication) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.over = true
	for _, l := range p.listeners {
		_ = l.Close()
	}
	for c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.work.Wait()
}
