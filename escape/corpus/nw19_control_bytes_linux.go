package corpus

import (
	"strconv"

	"cloister/escape"
)

func nw19() escape.Case {
	return escape.Case{
		ID: "NW-19", Class: "NUL and control bytes", Attack: "names with NUL, %00, CR, LF, TAB, space and DEL, by SOCKS5 and by CONNECT",
		Source: "the SOCKS5 NUL byte (130 versions)", Layers: []string{"one canonical name"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, host := range []string{"evil.test\x00.allowed.test", "evil.test%00.allowed.test", "evil.test\r.allowed.test", "evil.test\n.allowed.test", "evil.test\t.allowed.test", "evil.test .allowed.test", "evil.test\x7f.allowed.test", "allowed.test\x00", "\x00allowed.test", "allowed.test\xff", "evil.test#.allowed.test", "evil.test/.allowed.test", "evil.test@allowed.test", "allowed.test:443:22"} {
				out = append(out,
					tunnel("CONNECT "+strconv.QuoteToASCII(host), host+":443", in),
					net1("SOCKS "+strconv.QuoteToASCII(host), func() error { return socks(in, host, 443) }))
			}
			return out
		},
	}
}
