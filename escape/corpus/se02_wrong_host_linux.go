package corpus

import (
	"cloister/escape"
	"strings"
)

func se02() escape.Case {
	return escape.Case{
		ID: "SE-02", Class: "wrong host", Attack: "send a placeholder to a host that is allowed and not bound, to one that is denied, in the clear, to the bound host by another name",
		Source: "SE-02", Layers: []string{"secrets", "policy"}, Needs: gate(),
		Host: vaulted(func(r *ruled) []escape.Finding {
			out := []escape.Finding{
				r.swapped(),
				r.kept("a host that is not bound", false, "tls:unbound.test", get("unbound.test", "/ok/x", bearer)),
				r.kept("a host that is denied", false, "tls:denied.test", get("denied.test", "/ok/x", bearer)),
				r.kept("the bound host at another port", false, "tls:bound.test:8443", get("bound.test:8443", "/ok/x", bearer)),
				r.kept("the bound host in the clear", false, "tcp:bound.test:80", get("bound.test", "/ok/x", bearer)),
				r.kept("the host that is bound, in a Host beside it", false, "tls:unbound.test", get("bound.test", "/ok/x", bearer)),
				r.kept("the absolute form of the bound host", false, "tls:unbound.test", strings.Replace(get("unbound.test", "/ok/x", bearer), "/ok/x", "https://bound.test/ok/x", 1)),
				r.kept("base64 to a host that is not bound", false, "tls:unbound.test", get("unbound.test", "/ok/x", "Authorization: Basic ${base64:TOKEN}")),
			}
			return append(out, r.refusals(2))
		}),
	}
}

// refusals says whether the record has so many refused uses at least, and none with the
// value.
func (r *ruled) refusals(least int) escape.Finding {
	res := r.cloister("audit", "tail", "--json", "--kind", "secret.use")
	n := strings.Count(res.Stdout, "\"verdict\":\"deny\"")
	return found("each refusal is on record, without the value", n >= least && !strings.Contains(res.Stdout, canary), "%d refusals: %.900s", n, res.Stdout)
}
