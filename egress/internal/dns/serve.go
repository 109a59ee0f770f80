package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"cloister/egress/internal/dnsmsg"
	"cloister/egress/internal/gate"
	"cloister/egress/internal/sock"
	"cloister/internal/origin"
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
	if at, ok := udp.LocalAddr().(*net.UDPAddr); ok && at.IP.To4() == nil {
		if err := sock.FreeBind(udp); err != nil {
			return err
		}
	}
	if err := origin.Report(udp); err != nil {
		return err
	}
	oob := make([]byte, 128)
	return s.serve(ctx, func(buf []byte) (int, func([]byte), error) {
		n, oobn, _, from, err := udp.ReadMsgUDPAddrPort(buf, oob)
		back := origin.Reply(oob[:oobn])
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
