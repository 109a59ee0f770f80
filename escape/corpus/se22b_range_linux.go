package corpus

import (
	"strings"

	"cloister/escape"
)

func se22b() escape.Case {
	return escape.Case{
		ID: "SE-22b", Class: "parts of an answer", Attack: "a server says a secret in parts that are too short to be known again (Range): only the hosts that may say one " +
			"give whole answers, and every other one gives parts as before, after a secret was sent too",
		Source: "issue 16, second audit", Layers: []string{"secrets"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			// One session: the secret goes out before the parts are asked for.
			script := r.w.Self + ` say tls:bound.test "$1"; ` + r.w.Self + ` say tls:bound.test "$2"; ` + r.w.Self + ` say tls:unbound.test "$3"`
			before := len(r.w.Upstream())
			part := "Range: bytes=0-9"
			res := r.cloister("run", "-C", r.project, "--expose", r.w.Self+":ro", "--", "sh", "-c", script, "sh",
				get("bound.test", "/ok/sent22b", bearer), get("bound.test", "/ok/part22b", part), get("unbound.test", "/ok/part22b", part))
			sent := r.w.Upstream()[before:]
			line := func(host, path string) string {
				for _, s := range sent {
					if strings.Contains(s, path) && strings.Contains(s, "Host "+host) {
						return s
					}
				}
				return ""
			}
			own, other := line("bound.test", "/ok/part22b"), line("unbound.test", "/ok/part22b")
			return []escape.Finding{
				found("control: the secret went out", strings.Contains(line("bound.test", "/ok/sent22b"), canary), "%q %s", sent, res.Stderr),
				found("the host that has it gives the whole", own != "" && !strings.Contains(own, "bytes=0-9"), "%q", own),
				found("another host gives the part", strings.Contains(other, "bytes=0-9"), "%q", other),
			}
		}),
	}
}
