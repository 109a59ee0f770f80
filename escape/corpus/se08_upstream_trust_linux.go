package corpus

import (
	"cloister/escape"
	"strings"
)

func se08() escape.Case {
	return escape.Case{
		ID: "SE-08", Class: "upstream trust", Attack: "a bound host shows a certificate of another name, of yesterday, of nobody; inside, the variables of authorities lead elsewhere",
		Source: "SE-08", Layers: []string{"certificates"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			out := []escape.Finding{r.swapped()}
			for _, name := range escape.Untrusted() {
				before := len(r.w.Upstream())
				res := r.inside("say", "tls:"+name, get(name, "/ok/x", bearer))
				sent := r.w.Upstream()[before:]
				out = append(out, found(name, len(sent) == 0 && strings.Contains(res.Stdout, "502") && !strings.Contains(res.Stdout, canary), "%.400s; sent: %q", res.Stdout, sent))
			}
			before := len(r.w.Upstream())
			res := r.cloister("run", "-C", r.project, "--expose", r.w.Self+":ro", "-e", "SSL_CERT_FILE=/nonexistent", "-e", "SSL_CERT_DIR=/tmp", "--", r.w.Self, "say", "tls:selfsigned.test", get("selfsigned.test", "/ok/x", bearer))
			return append(out, found("with authorities of the agent's", len(r.w.Upstream()) == before && strings.Contains(res.Stdout, "502"), "%.400s", res.Stdout))
		}),
	}
}
