package corpus

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"cloister/escape"
)

func nw16a() escape.Case {
	return escape.Case{
		ID: "NW-16a", Class: "addresses by other forms", Attack: "loopback, metadata and the host as addresses of SOCKS 5, 4 and 4a, as IPv4 within IPv6, with zones; bind and UDP associate; a name that is an address",
		Source: "GHSA-jmr4-p576-v565 (SOCKS5 by address); CVE-2025-22870 (zones)", Layers: []string{"one canonical name", "addresses"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			port := uint16(in.Port)
			for _, addr := range []string{"127.0.0.1", "0.0.0.0", "169.254.169.254", "10.0.0.1", "::1", "::", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "fd00:ec2::254", "fe80::1"} {
				ip := netip.MustParseAddr(addr)
				out = append(out, net1("SOCKS 5 to "+addr, func() error { return socksAsk(in, socks5(1, ip, port), 4, 0) }))
				if ip.Is4() {
					out = append(out, net1("SOCKS 4 to "+addr, func() error { return socksAsk(in, socks4(ip, port, ""), 2, 90) }))
				}
			}
			loopback := netip.MustParseAddr("127.0.0.1")
			out = append(out,
				net1("SOCKS 4a by name", func() error { return socksAsk(in, socks4(netip.MustParseAddr("0.0.0.1"), port, "localhost"), 2, 90) }),
				net1("SOCKS 4a, a denied name", func() error { return socksAsk(in, socks4(netip.MustParseAddr("0.0.0.1"), 443, "denied16.test"), 2, 90) }),
				net1("SOCKS 5 bind", func() error { return socksAsk(in, socks5(2, loopback, port), 4, 0) }),
				net1("SOCKS 5 UDP associate", func() error { return socksAsk(in, socks5(3, loopback, port), 4, 0) }),
				net1("SOCKS 5 resolve", func() error { return socksAsk(in, socks5(0xf0, loopback, port), 4, 0) }))
			for _, host := range []string{"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[::1%25lo]", "[::1%lo]", "[fe80::1%25eth0]", "[::1", "::1", "[127.0.0.1]", "localhost.", "LOCALHOST", "localhost.localdomain", "ip6-localhost", "127.0.0.1.allowed.test"} {
				target := fmt.Sprintf("%s:%d", host, in.Port)
				out = append(out, tunnel("CONNECT "+host, target, in),
					net1("absolute form "+host, func() error {
						return raw(in, "GET http://"+target+"/ HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
					}))
			}
			return append(out, must("CONNECT allowed.test", in, "allowed.test:443"))
		},
	}
}

// socks5 is a request by address, with its greeting.
func socks5(command byte, ip netip.Addr, port uint16) []byte {
	kind := byte(1)
	if ip.Is6() {
		kind = 4
	}
	out := append([]byte{5, 1, 0, 5, command, 0, kind}, ip.AsSlice()...)
	return binary.BigEndian.AppendUint16(out, port)
}

// socks4 is a request by address, or in 4a's way by a name.
func socks4(ip netip.Addr, port uint16, name string) []byte {
	out := append(binary.BigEndian.AppendUint16([]byte{4, 1}, port), ip.AsSlice()...)
	out = append(out, "me\x00"...)
	if name != "" {
		out = append(append(out, name...), 0)
	}
	return out
}

// socksAsk sends a request, of whose answer the byte before so many tells whether
// it was granted.
func socksAsk(in escape.Inside, request []byte, size int, granted byte) error {
	if in.Control {
		return raw(in, "hello")
	}
	c, err := net.DialTimeout("tcp", proxyAt, patience)
	if err != nil {
		return plain(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Write(request); err != nil {
		return plain(err)
	}
	buf, got := make([]byte, 64), 0
	for got < size {
		n, err := c.Read(buf[got:])
		got += n
		if err != nil {
			return escape.ErrRefused
		}
	}
	if buf[size-1] != granted {
		return escape.ErrRefused
	}
	return nil
}
