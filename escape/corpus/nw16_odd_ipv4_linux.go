package corpus

import (
	"strconv"

	"cloister/escape"
)

func nw16() escape.Case {
	return escape.Case{
		ID: "NW-16", Class: "odd IPv4 spellings", Attack: "octal, hexadecimal, decimal, short and full-width spellings of loopback, by CONNECT, SOCKS and Host",
		Source: "CVE-2024-24790; SSRF lists", Layers: []string{"one canonical name"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, host := range []string{"0177.0.0.1", "0x7f.1", "0x7f000001", "2130706433", "127.1", "0", "1.2.3", "0300.0250.0.1", "127.0.0.1.", "127.0.0.01", "\uff11\uff12\uff17.\uff10.\uff10.\uff11", "1\u30022.3.4", "[::1%25lo]", "allowed.test.0x7f"} {
				out = append(out,
					tunnel("CONNECT "+strconv.QuoteToASCII(host), host+":443", in),
					net1("SOCKS "+strconv.QuoteToASCII(host), func() error { return socks(in, host, 443) }),
					net1("Host "+strconv.QuoteToASCII(host), func() error { return raw(in, "GET http://"+host+"/ HTTP/1.1\r\nHost: "+host+"\r\n\r\n") }))
			}
			return out
		},
	}
}

// socks asks the proxy for a name by SOCKS5.
func socks(in escape.Inside, host string, port int) error {
	head := append([]byte{5, 1, 0, 5, 1, 0, 3, byte(len(host))}, host...)
	return socksAsk(in, append(head, byte(port>>8), byte(port)), 4, 0)
}
