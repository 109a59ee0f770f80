package corpus

import (
	"cloister/escape"
	"strings"
)

func se05() escape.Case {
	return escape.Case{
		ID: "SE-05", Class: "redirect carry", Attack: "a bound host sends the caller elsewhere, who goes with the same head: another host, a name below it, and on from there",
		Source: "CVE-2024-45336; CVE-2023-45289; CVE-2025-4673", Layers: []string{"secrets", "policy"}, Needs: gate(),
		Host: vaulted(func(r *ruled) []escape.Finding {
			before := len(r.w.Upstream())
			res := r.inside("say", "tls:bound.test", get("bound.test", "/ok/reflect/location", bearer))
			sent := r.w.Upstream()[before:]
			return []escape.Finding{
				r.swapped(),
				found("the redirect is passed on, not followed, and says nothing", strings.HasPrefix(res.Stdout, "HTTP/1.1 302") && len(sent) == 1 && !strings.Contains(res.Stdout, canary), "%.300s; sent: %q", res.Stdout, sent),
				r.kept("on to another host", false, "tls:unbound.test", get("unbound.test", "/ok/there", bearer)),
				r.kept("and from there to a third", false, "tls:tools.test", get("tools.test", "/ok/there", bearer)),
				r.kept("to a name below", false, "tls:sub.bound.test", get("sub.bound.test", "/ok/there", bearer)),
				r.kept("to another port", false, "tcp:bound.test:80", get("bound.test", "/ok/there", bearer)),
			}
		}),
	}
}
