package corpus

import (
	"cloister/escape"
)

func nw34() escape.Case {
	return escape.Case{
		ID: "NW-34", Class: "redirects", Attack: "an allowed server answers 302 to the metadata service: the answer is handed on, nobody follows, the next request is judged anew",
		Source: "SE-05; CVE-2024-45336", Layers: []string{"policy", "addresses"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			return []escape.Try{
				{Name: "the redirect itself must come through", Held: []error{escape.ErrNothing}, Do: func() error {
					if in.Control {
						return nil
					}
					return nothing(talk("tcp", "allowed.test:80", "GET /redirect34 HTTP/1.1\r\nHost: allowed.test\r\n\r\n"))
				}},
				net1("following it", func() error {
					return talk("tcp", to(in, "169.254.169.254:80"), "GET / HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n")
				}),
			}
		},
	}
}
