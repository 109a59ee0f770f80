package guest

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"cloister/internal/origin"
	"cloister/sandbox/gate"
	"cloister/sandbox/gate/lay"
	"cloister/sandbox/microvm/wire"
)

// open serves one of the gate's sockets. Its connections go on to the monitor, which makes them
// again in the enclosure's own network, where the same rules lead them to the guardian.
func (g *guest) open(s gate.Socket) error {
	f, err := lay.Listen(s)
	if err != nil {
		return err
	}
	defer f.Close() // what is made of it has a descriptor of its own
	if s.Type == unix.SOCK_DGRAM {
		c, err := net.FilePacketConn(f)
		if err != nil {
			return err
		}
		u := c.(*net.UDPConn) // the kernel's datagram socket of an IP family
		if err := origin.Report(u); err != nil {
			return err
		}
		go g.questions(u)
		return nil
	}
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	dns := netip.AddrPortFrom(netip.MustParseAddr(gate.Addr4), gate.DNSPort)
	go g.accept(l.(*net.TCPListener), func(c *net.TCPConn) (netip.AddrPort, error) { // as above
		if s.Addr.Port() == gate.DNSPort {
			return dns, nil
		}
		return origin.Of(c)
	})
	return nil
}

func (g *guest) accept(l *net.TCPListener, to func(*net.TCPConn) (netip.AddrPort, error)) {
	for {
		c, err := l.AcceptTCP()
		if err != nil {
			g.stop(err)
			return
		}
		select {
		case g.connections <- struct{}{}:
		default: // the monitor would take no more
			_ = c.SetLinger(0)
			_ = c.Close()
			continue
		}
		go func() {
			defer func() { <-g.connections }()
			at, err := to(c)
			if err == nil {
				var s net.Conn
				if s, err = wire.Open(g.s, wire.Head{TCP: at.String()}); err == nil {
					wire.Carry(s, c)
					return
				}
			}
			_ = c.SetLinger(0)
			_ = c.Close() // reset
		}()
	}
}

// asking bounds the questions that wait for an answer; a further one is lost, as datagrams are.
const asking = 128

// questions answers datagrams from the address that was asked.
func (g *guest) questions(c *net.UDPConn) {
	slots := make(chan struct{}, asking)
	buf, oob := make([]byte, wire.MaxFrame), make([]byte, 128)
	for {
		n, oobn, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			g.stop(err)
			return
		}
		question, back := append([]byte{}, buf[:n]...), origin.Reply(oob[:oobn])
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		go func() {
			defer func() { <-slots }()
			s, err := wire.Open(g.s, wire.Head{DNS: true})
			if err != nil {
				return
			}
			defer func() { _ = s.Close() }() // it has been answered, or the monitor is gone
			if err := wire.WriteFrame(s, question); err != nil {
				return
			}
			if answer, err := wire.ReadFrame(s, make([]byte, wire.MaxFrame)); err == nil {
				_, _, _ = c.WriteMsgUDPAddrPort(answer, back, from) // lost, as datagrams are
			}
		}()
	}
}
