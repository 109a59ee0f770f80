package corpus

import (
	"net"

	"cloister/escape"
)

func nw14() escape.Case {
	return escape.Case{
		ID: "NW-14", Class: "metadata", Attack: "the metadata services of clouds by address, by name, by the proxy and with a rule that allows them",
		Source: "NW-14; Capital One 2019", Layers: []string{"net", "policy", "addresses"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, host := range []string{"169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "metadata.google.internal", "instance-data.ec2.internal"} {
				addr := net.JoinHostPort(host, "80")
				out = append(out,
					net1("directly "+host, func() error { return talk("tcp", to(in, addr), "GET /latest/ HTTP/1.1\r\nHost: "+host+"\r\n\r\n") }),
					tunnel("by the proxy "+host, addr, in))
			}
			return out
		},
		Due: []escape.Due{
			{Kind: "net.connect", Host: "169.254.169.254", Verdict: "deny", Some: true},
			{Kind: "net.connect", Host: "169.254.170.2", Verdict: "deny", Some: true},
			{Kind: "net.connect", Host: "100.100.100.200", Verdict: "deny", Some: true},
			{Kind: "net.connect", Host: "168.63.129.16", Verdict: "deny", Some: true},
			{Kind: "net.connect", Host: "fd00:ec2::254", Verdict: "deny", Some: true},
		},
		Flags: func(*escape.World) []string {
			var out []string
			for _, host := range []string{"metadata.google.internal"} {
				out = append(out, "--allow", host)
			}
			return out
		},
	}
}
