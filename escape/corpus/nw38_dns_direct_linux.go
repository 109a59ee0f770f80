package corpus

import (
	"net"
	"time"

	"cloister/escape"
)

func nw38() escape.Case {
	return escape.Case{
		ID: "NW-38", Class: "DNS direct", Attack: "DNS to public servers by UDP, TCP and TLS, mDNS, LLMNR, DNS over HTTPS",
		Source: "sandbox-runtime #88, httpjail #53", Layers: []string{"net", "policy"},
		Tries: func(in escape.Inside) []escape.Try {
			question := "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05out38\x06denied\x04test\x00\x00\x01\x00\x01"
			udp := func(addr string) func() error {
				return func() error {
					if in.Control {
						return datagram(sink(in), question)
					}
					c, err := net.Dial("udp", addr)
					if err != nil {
						return plain(err)
					}
					defer c.Close()
					return answerOf(c, question)
				}
			}
			return []escape.Try{
				net1("UDP to 8.8.8.8", udp("8.8.8.8:53")),
				net1("UDP to 1.1.1.1", udp("1.1.1.1:53")),
				net1("UDP over IPv6", udp("[2001:4860:4860::8888]:53")),
				net1("mDNS", udp("224.0.0.251:5353")),
				net1("LLMNR", udp("224.0.0.252:5355")),
				net1("TCP to 8.8.8.8", func() error {
					if in.Control {
						return talk("tcp", sink(in), question)
					}
					c, err := net.DialTimeout("tcp", "8.8.8.8:53", 3*time.Second)
					if err != nil {
						return plain(err)
					}
					defer c.Close()
					return answerOf(c, string([]byte{0, byte(len(question))})+question)
				}),
				net1("DNS over TLS", func() error { return handshake(to(in, "1.1.1.1:853"), "one.one.one.one") }),
				tunnel("DNS over HTTPS by name", "dns.google:443", in),
				tunnel("DNS over HTTPS by address", "1.1.1.1:443", in),
			}
		},
		Due: []escape.Due{
			{Kind: "net.connect", Host: "dns.google", Verdict: "deny"},
			{Kind: "net.connect", Host: "1.1.1.1", Verdict: "deny", Some: true},
		},
	}
}

// answerOf asks and looks for an address in the answer; a refusal is one of the
// guardian's own, which forwarded nothing.
func answerOf(c net.Conn, question string) error {
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte(question)); err != nil {
		return plain(err)
	}
	buf := make([]byte, 1024)
	n, err := c.Read(buf)
	if err != nil || n < 12 {
		return escape.ErrNothing
	}
	head := buf[:n]
	if head[0] != 0x12 { // the length of an answer over TCP
		head = head[2:]
	}
	if len(head) > 7 && head[6] == 0 && head[7] == 0 {
		return escape.ErrRefused
	}
	return nil
}
