package corpus

import (
	"os"
	"path/filepath"

	"cloister/escape"
)

func nw13() escape.Case {
	return escape.Case{
		ID: "NW-13", Class: "control plane", Attack: "reach the guardian by its socket, by the proxy and by SOCKS",
		Source: "GHSA-9x85-c42x-79cx (an agent reached its own policy API)", Layers: []string{"view", "policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			return []escape.Try{
				{Name: "its socket", Held: gone(), Control: escape.ByNobody, Why: "the control's world has no guardian", Do: func() error {
					return talk("unix", in.Socket, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
				}},
				{Name: "list its folder", Control: escape.ByNobody, Why: "the control's world has no guardian", Do: func() error {
					_, err := os.ReadDir(filepath.Dir(in.Socket))
					return err
				}},
				tunnel("the proxy itself", "proxy.cloister.internal:3128", in),
				tunnel("the gate's address", "198.18.0.1:53", in),
				net1("the API on the gate", func() error {
					return talk("tcp", to(in, "198.18.0.1:80"), "GET /v1/status HTTP/1.1\r\nHost: 198.18.0.1\r\n\r\n")
				}),
				net1("by absolute form", func() error {
					return raw(in, "GET http://127.0.0.1:8080/v1/status HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n")
				}),
			}
		},
	}
}
