package corpus

import "cloister/escape"

func nw40() escape.Case {
	return escape.Case{
		ID: "NW-40", Class: "DNS rebinding", Attack: "allowed names that resolve, outside, to loopback or to the host itself: the vetted address is the dialled one",
		Source: "Codex network-proxy README (best effort)", Layers: []string{"addresses"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			out := []escape.Try{tunnel("CONNECT localhost", "localhost:443", in), tunnel("CONNECT localhost on the sink's port", "localhost:"+itoa(in.Port), in)}
			return append(out,
				net1("plain HTTP to localhost", func() error {
					return raw(in, "GET http://localhost:"+itoa(in.Port)+"/ HTTP/1.1\r\nHost: localhost:"+itoa(in.Port)+"\r\n\r\n")
				}),
				net1("SOCKS to localhost", func() error { return socks(in, "localhost", in.Port) }))
		},
		Flags: func(w *escape.World) []string {
			return []string{"--allow", "localhost", "--allow", "localhost:" + itoa(w.Port)}
		},
	}
}
