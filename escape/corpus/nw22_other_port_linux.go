package corpus

import (
	"cloister/escape"
)

func nw22() escape.Case {
	return escape.Case{
		ID: "NW-22", Class: "other port", Attack: "allowed names on ports that no rule names, and ports that are none",
		Source: "claude-code #40213", Layers: []string{"policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, port := range []string{"22", "25", "2375", "8443", "3128", "0", "65536", "00443", "+443", "-1", "443x", ""} {
				out = append(out, tunnel("CONNECT port "+port, "allowed.test:"+port, in))
			}
			for _, port := range []string{"22", "2375", "6443"} {
				out = append(out, net1("directly port "+port, func() error { return talk("tcp", to(in, "allowed.test:"+port), "hello NW-22\r\n") }))
			}
			return out
		},
	}
}
