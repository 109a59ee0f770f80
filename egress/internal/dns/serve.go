package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"cloister/egress/internal/dnsmsg"
	"cloister/egress/internal/gate"
	"cloister/egress/internal/sock"
)

// Datagrams answers on one datagram socket until it is closed.
func (s *Server) Datagrams(ctx context.Context, pc net.PacketConn) error {
	udp, ok := pc.(*net.UDPConn)
	if !ok {
		return s.serve(ctx, func(buf []byte) (int, func([]byte), error) {
			n, from, err := pc.ReadFrom(buf)
			return n, func(out []byte) { s.sent(pc.WriteTo(out, from)) }, err
		})
	}
	if err := wantDestination(udp); err != nil {
		return err
	}
	oob := make([]byte, 128)
	return s.serve(ctx, func(buf []byte) (int, func([]byte), error) {
		n, oobn, _, from, err := udp.ReadMsgUDPAddrPort(buf, oob)
		back := sourceControl(oob[:oobn])
		return n, func(out []byte) {
			n, _, err := udp.WriteMsgUDPAddrPort(out, back, from)
			s.sent(n, err)
		}, err
	})
}

// sent drops the result of an answer: a datagram that could not be sent is
// lost like any other, and the program asks again.
func (s *Server) sent(_ int, err error) {
	if err != nil {
		s.Log.Debug("dns answer lost", "error", err)
	}
}

// serve answers one question after the other: a Decider keeps none
// waiting, and a goroutine for each would take longer to wake than to answer.
// What comes too fast waits in the socket, and is dropped there when that is full.
func (s *Server) serve(ctx context.Context, read func([]byte) (int, func([]byte), error)) error {
	buf := make([]byte, MaxTCP)
	for {
		n, reply, err := read(buf)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			if !gate.Pause(ctx, s.Log, err) {
				return nil
			}
			continue
		}
		if out := s.Answer(ctx, buf[:n], dnsmsg.MinUDP); out != nil {
			reply(out)
		}
	}
}

// wantDestination makes the kernel tell which address each datagram was sent
// to. The sockets are bound to the wildcard, and an answer from another
// address than the one that was asked is dropped by every resolver.
func wantDestination(c *net.UDPConn) error {
	if isV4(c) {
		return ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst, true)
	}
	if err := sock.FreeBind(c); err != nil {
		return err
	}
	p6 := ipv6.NewPacketConn(c)
	if err := p6.SetControlMessage(ipv6.FlagDst, true); err != nil {
		return err
	}
	// A dual-stack socket also gets IPv4 datagrams, whose destination comes in
	// IP_PKTINFO; on an IPv6-only socket the option is harmless.
	_ = ipv4.NewPacketConn(c).SetControlMessage(ipv4.FlagDst, true)
	return nil
}

func isV4(c *net.UDPConn) bool {
	a, ok := c.LocalAddr().(*net.UDPAddr)
	return ok && a.AddrPort().Addr().Unmap().Is4()
}

// sourceControl turns the "sent to" message of a datagram into the "send from"
// message of its answer. Nil, which lets the kernel choose, if there is none.
func sourceControl(oob []byte) []byte {
	var c4 ipv4.ControlMessage
	if err := c4.Parse(oob); err == nil && c4.Dst != nil {
		return (&ipv4.ControlMessage{Src: c4.Dst}).Marshal()
	}
	var c6 ipv6.ControlMessage
	if err := c6.Parse(oob); err == nil && c6.Dst != nil {
		if a, ok := netip.AddrFromSlice(c6.Dst); ok && !a.Is4In6() {
			return (&ipv6.ControlMessage{Src: c6.Dst}).Marshal()
		}
	}
	return nil
}

// Conn answers the questions of one TCP connection (RFC 7766).
func (s *Server) Conn(ctx context.Context, c net.Conn) {
	var size [2]byte
	for {
		if err := c.SetDeadline(time.Now().Add(s.Wait)); err != nil {
			return
		}
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		msg := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, msg); err != nil {
			return
		}
		out := s.Answer(ctx, msg, MaxTCP)
		if out == nil {
			return
		}
		framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(out)), uint16(len(out)))
		if _, err := c.Write(append(framed, out...)); err != nil {
			return
		}
	}
}
