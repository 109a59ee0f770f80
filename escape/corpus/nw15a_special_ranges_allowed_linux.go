package corpus

import (
	"net"

	"cloister/escape"
)

func nw15a() escape.Case {
	return escape.Case{
		ID: "NW-15a", Class: "special ranges, allowed", Attack: "the same with a rule that allows all of them: the address table stands behind policy",
		Source: "NW-15", Layers: []string{"addresses"}, Needs: gate(),
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for _, host := range specialHosts() {
				out = append(out, tunnel("CONNECT "+host, net.JoinHostPort(host, "443"), in))
			}
			return out
		},
		Flags: func(w *escape.World) []string {
			path := w.Base + "/run/all.cedar"
			if err := w.Write(path, "permit (principal, action == Action::\"NetworkConnect\", resource);\n"); err != nil {
				return []string{"--policy", "/nowhere"}
			}
			return []string{"--policy", path}
		},
	}
}
