package corpus

import (
	"net"
	"time"

	"cloister/escape"
)

func nw03() escape.Case {
	return escape.Case{
		ID: "NW-03", Class: "UDP and QUIC", Attack: "datagrams to ports 443, 53 and 123 of addresses outside, connected and not",
		Source: "KubeArmor #1254 (send without connect)", Layers: []string{"net"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, port := range []string{"443", "123", "53", "4433"} {
				out = append(out,
					net1("connected to port "+port, func() error { return talk("udp", to(in, "203.0.113.3:"+port), "hello NW-03") }),
					net1("unconnected to port "+port, func() error { return datagram(to(in, "203.0.113.3:"+port), "hello NW-03") }))
			}
			if in.HostIP != "" {
				out = append(out, net1("to the host's own address", func() error { return datagram(net.JoinHostPort(in.HostIP, itoa(in.Port)), "hello NW-03") }))
			}
			return append(out, net1("to the host's loopback", func() error { return datagram(sink(in), "hello NW-03") }))
		},
	}
}

// datagram sends from a socket that is not connected, and waits for an answer.
func datagram(addr, text string) error {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return err
	}
	c, err := net.ListenPacket("udp", ":0")
	if err != nil {
		return plain(err)
	}
	defer c.Close()
	if _, err := c.WriteTo([]byte(text), to); err != nil {
		return plain(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(400 * time.Millisecond)); err != nil {
		return err
	}
	buf := make([]byte, 512)
	n, _, err := c.ReadFrom(buf)
	switch {
	case err != nil:
		return escape.ErrNothing
	case string(buf[:n]) == "sunk":
		return nil
	}
	return escape.ErrRefused
}
