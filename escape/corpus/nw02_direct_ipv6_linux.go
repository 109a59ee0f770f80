package corpus

import (
	"cloister/escape"
)

func nw02() escape.Case {
	return escape.Case{
		ID: "NW-02", Class: "direct IPv6", Attack: "the same over IPv6, IPv4-mapped, link-local and loopback addresses",
		Source: "Leash: IPv4-only hook", Layers: []string{"net", "policy"},
		Tries: func(in escape.Inside) []escape.Try {
			six := "[::1]:" + itoa(in.Port)
			at := func(addr string) string {
				if in.Control {
					return six
				}
				return addr
			}
			return []escape.Try{
				net1("a global address", func() error { return talk("tcp6", at("[2001:db8::2]:443"), "hello NW-02\r\n\r\n") }),
				net1("an IPv4-mapped address", func() error { return talk("tcp", to(in, "[::ffff:203.0.113.2]:443"), "hello NW-02\r\n\r\n") }),
				net1("a link-local address", func() error { return talk("tcp6", at("[fe80::1%lo]:443"), "hello NW-02\r\n\r\n") }),
				net1("the host's loopback", func() error { return talk("tcp6", six, "hello NW-02\r\n\r\n") }),
				net1("the metadata address", func() error { return talk("tcp6", at("[fd00:ec2::254]:80"), "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }),
			}
		},
		Due: []escape.Due{
			{Kind: "net.connect", Host: "2001:db8::2", Verdict: "deny", Some: true},
			{Kind: "net.connect", Host: "203.0.113.2", Verdict: "deny", Some: true},
		},
	}
}
