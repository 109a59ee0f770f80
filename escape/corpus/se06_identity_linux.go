package corpus

import (
	"cloister/escape"
	"strings"
)

func se06() escape.Case {
	return escape.Case{
		ID: "SE-06", Class: "identity mix", Attack: "TLS for one host and a request for another, in both directions, first and later on one connection: none gets the other's secret",
		Source: "agentcage #214", Layers: []string{"form", "secrets"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			first := get("bound.test", "/ok/first", bearer)
			return []escape.Finding{
				r.swapped(),
				r.kept("TLS for another, Host of the bound one", false, "tls:unbound.test", get("bound.test", "/ok/x", bearer)),
				r.kept("a name that nobody may reach", false, "tls:bound.test", get("denied.test", "/ok/x")),
				r.mixed("later, Host of another", "tls:bound.test", first, get("unbound.test", "/ok/later", bearer)),
				r.mixed("later, the absolute form of another", "tls:bound.test", first, strings.Replace(get("bound.test", "/ok/x", bearer), "/ok/x", "https://unbound.test/ok/later", 1)),
				r.kept("the connection of another after one with the secret", false, "tls:unbound.test", get("unbound.test", "/ok/later", bearer)),
			}
		}),
	}
}

// mixed sends a good request and then one that no server may get.
func (r *ruled) mixed(name string, words ...string) escape.Finding {
	before := len(r.w.Upstream())
	res := r.inside(append([]string{"say"}, words...)...)
	sent := strings.Join(r.w.Upstream()[before:], "\n")
	return found(name, strings.Contains(sent, "/ok/first") && !strings.Contains(sent, "/ok/later") && !strings.Contains(sent, "unbound"), "%.300s; sent: %.600s", res.Stdout, sent)
}
