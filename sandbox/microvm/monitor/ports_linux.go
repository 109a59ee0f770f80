package monitor

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/hashicorp/yamux"

	"cloister/sandbox/gate"
	"cloister/sandbox/microvm/wire"
)

func notified() <-chan os.Signal {
	c := make(chan os.Signal, 64)
	signal.Notify(c)
	return c
}

// mostStreams bounds the guest's connections and questions at one time, and headWithin what begins one of
// them: a guest whose kernel is no longer ours opens as many as it likes, and says nothing. One that is closed here
// is kept, with what is sent on it, until the guest closes it as well; of those there may be as many again, which
// our own guest's never are.
const (
	mostStreams = wire.MaxConnections
	headWithin  = 2 * time.Minute
)

// accept takes the guest's connections and questions. One that is too many is closed: a reset.
func (b *box) accept(ctx context.Context) {
	slots := make(chan struct{}, mostStreams)
	for {
		s, err := b.s.AcceptStream()
		if err != nil {
			b.over <- fmt.Errorf("the guest is gone: %w", err)
			return
		}
		if b.s.NumStreams()-int(b.own.Load()) > 2*mostStreams {
			b.over <- fmt.Errorf("the guest keeps more than %d connections open that were closed", mostStreams)
			_ = b.s.Close()
			return
		}
		select {
		case slots <- struct{}{}:
		default:
			_ = s.Close()
			continue
		}
		go func() {
			defer func() { <-slots }()
			b.stream(ctx, s)
		}()
	}
}

func (b *box) stream(ctx context.Context, s *yamux.Stream) {
	var h wire.Head
	err := s.SetReadDeadline(time.Now().Add(b.head))
	if err == nil {
		err = wire.HearHead(s, &h)
	}
	if err == nil {
		err = s.SetReadDeadline(time.Time{})
	}
	if err != nil || !b.o.Setup.Network {
		_ = s.Close()
		return
	}
	switch {
	case h.TCP != "":
		b.tcp(ctx, s, h.TCP)
	case h.DNS:
		b.dns(ctx, s)
	case h.Refused:
		refused(s)
	default:
		_ = s.Close()
	}
}

// dialWithin bounds a connection on this network's own loopback.
const dialWithin = 30 * time.Second

// tcp makes a program's connection again where every address leads to the gate. What would lead
// to this network's own programs is none of the guest's.
func (b *box) tcp(ctx context.Context, s *yamux.Stream, to string) {
	at, err := netip.ParseAddrPort(to)
	if own := at.Addr().Unmap(); err != nil || own.IsLoopback() || own.IsUnspecified() {
		_ = s.Close() // without the end of a direction: it is a reset
		return
	}
	d := net.Dialer{Timeout: dialWithin, KeepAlive: -1}
	c, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		_ = s.Close()
		return
	}
	wire.Carry(s, c.(*net.TCPConn)) // it was dialled as one
}

// answersWithin is how long a question may wait: a person may be asked about its name.
const answersWithin = 10 * time.Minute

// dns asks the gate a program's question.
func (b *box) dns(ctx context.Context, s *yamux.Stream) {
	defer func() { _ = s.Close() }() // it has been answered, or cannot be
	buf := make([]byte, wire.MaxFrame)
	question, err := wire.ReadFrame(s, buf)
	if err != nil {
		return
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", net.JoinHostPort(gate.Addr4, strconv.Itoa(gate.DNSPort)))
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := c.Write(question); err != nil {
		return
	}
	if err := c.SetReadDeadline(time.Now().Add(answersWithin)); err != nil {
		return
	}
	n, err := c.Read(buf)
	if err != nil {
		return
	}
	_ = wire.WriteFrame(s, buf[:n]) // a guest that is gone needs none
}

// refused sends a datagram to each destination to which the guest refused one: the rules of this network refuse it as
// well, and their log is the record's. A guest can name any; so can any program here.
func refused(s *yamux.Stream) {
	defer func() { _ = s.Close() }() // the guest is gone, or speaks another language
	c, err := net.ListenUDP("udp", nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }() // nothing is kept in it
	buf := make([]byte, wire.MaxDestination)
	for {
		text, err := wire.ReadFrame(s, buf)
		if err != nil {
			return
		}
		to, err := netip.ParseAddrPort(string(text))
		if err != nil {
			return
		}
		_, _ = c.WriteToUDPAddrPort(nil, to) // it is refused, which is what is wanted
	}
}

// ports serves who wants a port of the guest: the driver, which enters this network for it.
func (b *box) ports() error {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: DialPort})
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				b.over <- fmt.Errorf("serve ports: %w", err)
				return
			}
			go b.port(c)
		}
	}()
	return nil
}

func (b *box) port(c *net.TCPConn) {
	var number [2]byte
	if _, err := io.ReadFull(c, number[:]); err != nil {
		_ = c.Close()
		return
	}
	b.own.Add(1)
	defer b.own.Add(-1)
	s, err := wire.Open(b.s, wire.Head{Dial: binary.BigEndian.Uint16(number[:])})
	if err != nil {
		_ = c.Close()
		return
	}
	var answer [1]byte
	if _, err := io.ReadFull(s, answer[:]); err != nil {
		answer[0] = 0
	}
	if _, err := c.Write(answer[:]); err != nil || answer[0] == 0 {
		_ = c.Close()
		_ = s.Close()
		return
	}
	wire.Carry(s, c)
}
