package corpus

import (
	"net"

	"cloister/escape"
)

func nw15() escape.Case {
	return escape.Case{
		ID: "NW-15", Class: "special ranges", Attack: "one address of every special-purpose range by CONNECT, in each of its spellings",
		Source: "measured: netip knows less than half of them", Layers: []string{"policy", "addresses"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, host := range specialHosts() {
				out = append(out, tunnel("CONNECT "+host, net.JoinHostPort(host, "443"), in))
			}
			return out
		},
	}
}

// specialHosts are addresses that are nobody's on the internet.
func specialHosts() []string {
	return []string{
		"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "192.0.0.1", "198.18.0.9", "198.19.255.255", "240.0.0.1", "255.255.255.255", "0.0.0.1", "127.0.0.2", "169.254.1.1", "224.0.0.1", "192.88.99.1",
		"::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:a00:1::", "::a00:1", "fec0::1", "fc00::1", "fd00::1", "fe80::1", "ff02::1", "2001::1", "100::1", "::", "5f00::1", "4000::1",
	}
}
