package corpus

import (
	"net"

	"cloister/escape"
)

func nw12() escape.Case {
	return escape.Case{
		ID: "NW-12", Class: "host loopback", Attack: "reach a server on the host by 127.0.0.1, ::1, 0.0.0.0, the docker gateway, host.docker.internal and localhost, directly and by the proxy",
		Source: "CVE-2025-23217", Layers: []string{"net", "policy", "addresses"},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			port := itoa(in.Port)
			for _, host := range []string{"127.0.0.1", "::1", "0.0.0.0", "::", "127.1.2.3", "172.17.0.1", "10.0.2.2", "192.168.65.2", "localhost", "host.docker.internal", "host.containers.internal", "gateway.docker.internal"} {
				addr := net.JoinHostPort(host, port)
				out = append(out, net1("directly "+host, func() error {
					if in.Control && host != "::1" && host != "0.0.0.0" && host != "localhost" && host != "::" {
						return talk("tcp", sink(in), "hello NW-12")
					}
					return talk("tcp", addr, "hello NW-12")
				}), tunnel("by the proxy "+host, addr, in))
			}
			return out
		},
		Due: []escape.Due{
			{Kind: "net.connect", Host: "10.0.2.2", Verdict: "deny", Some: true},
			{Kind: "net.connect", Host: "172.17.0.1", Verdict: "deny", Some: true},
		},
	}
}
