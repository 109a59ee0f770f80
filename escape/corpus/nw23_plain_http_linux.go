package corpus

import (
	"cloister/escape"
)

func nw23() escape.Case {
	return escape.Case{
		ID: "NW-23", Class: "plain HTTP parity", Attack: "absolute-form to a denied host, origin-form with a foreign Host, on the proxy and on port 80",
		Source: "claude-code #87381", Layers: []string{"policy", "form"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			get := func(target, host string) string { return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
			return []escape.Try{
				net1("absolute form", func() error { return raw(in, get("http://denied23.test/", "denied23.test")) }),
				net1("absolute form, Host of an allowed one", func() error { return raw(in, get("http://denied23b.test/", "allowed.test")) }),
				net1("allowed target, Host of a denied one", func() error { return raw(in, get("http://allowed.test/", "denied23.test")) }),
				net1("port 80 of an allowed name, Host of a denied one", func() error { return talk("tcp", to(in, "allowed.test:80"), get("/", "denied23.test")) }),
				net1("port 80, no Host", func() error { return talk("tcp", to(in, "allowed.test:80"), "GET / HTTP/1.1\r\n\r\n") }),
				net1("port 80, two Hosts", func() error {
					return talk("tcp", to(in, "allowed.test:80"), "GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: denied23.test\r\n\r\n")
				}),
				net1("https in absolute form", func() error { return raw(in, get("https://allowed.test/", "allowed.test")) }),
				net1("ftp in absolute form", func() error { return raw(in, get("ftp://allowed.test/", "allowed.test")) }),
				net1("origin form to the proxy", func() error { return raw(in, get("/", "allowed.test")) }),
				{Name: "an allowed request must come off", Held: []error{escape.ErrNothing}, Do: func() error {
					if in.Control {
						return nil
					}
					if err := talk("tcp", "allowed.test:80", get("/", "allowed.test")); err != nil {
						return err
					}
					return escape.ErrNothing
				}},
			}
		},
	}
}
