package corpus

import (
	"fmt"
	"net"
	"time"

	"cloister/escape"
)

func nw01() escape.Case {
	return escape.Case{
		ID: "NW-01", Class: "direct TCP", Attack: "connect to addresses of the internet and of the host without the proxy: refused within a second",
		Source: "sandbox-runtime #274; claude-code #40213", Layers: []string{"net", "policy"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, addr := range []string{"203.0.113.1:443", "203.0.113.1:80", "203.0.113.1:22", "203.0.113.1:1"} {
				out = append(out, net1("connect "+addr, func() error {
					began := time.Now()
					err := talk("tcp", to(in, addr), "hello NW-01\r\n\r\n")
					if took := time.Since(began); took > 2*time.Second && !in.Control {
						return fmt.Errorf("refused only after %v", took)
					}
					return err
				}))
			}
			if in.HostIP != "" {
				out = append(out, net1("connect the host's own address", func() error { return talk("tcp", net.JoinHostPort(in.HostIP, itoa(in.Port)), "hello NW-01") }))
			}
			return out
		},
		Due: []escape.Due{
			{Kind: "net.connect", Host: "203.0.113.1", Verdict: "deny", Some: true},
		},
	}
}
