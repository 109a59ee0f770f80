package corpus

import (
	"strings"

	"cloister/escape"
)

func se22a() escape.Case {
	return escape.Case{
		ID: "SE-22a", Class: "echo in another session", Attack: "a server keeps what one session sent it, and says it to a later session, and to one of another project beside it, " +
			"that never sent the secret; from a host that the secret is not bound to, too",
		Source: "issue 16, second audit", Layers: []string{"secrets"},
		Host: vaulted(func(r *ruled) []escape.Finding {
			out := []escape.Finding{r.swapped()}
			before := len(r.w.Upstream())
			first := r.inside("say", "tls:bound.test", get("bound.test", "/ok/reflect/first", bearer))
			sent := strings.Join(r.w.Upstream()[before:], "\n")
			outside := r.host(r.w.Self + " say tls:127.0.0.1:" + itoa(r.w.Secure) + " '" + get("bound.test", "/ok/reflect/first") + "'")
			out = append(out,
				found("the session that sends it gets a placeholder back", strings.Contains(sent, canary) && !strings.Contains(first.Stdout, canary) && strings.Contains(first.Stdout, "first said "),
					"%.400s; sent %.300s", first.Stdout, sent),
				found("control: outside, the server says it", strings.Contains(outside.Stdout, canary), "%.400s %s", outside.Stdout, outside.Stderr))
			other := r.base + "/other"
			if res := r.host("mkdir -m 777 " + other); res.Status != 0 {
				return append(out, found("make another project", false, "%s", res.Stderr))
			}
			for _, c := range []struct{ name, project, host, head string }{
				{"a second session of the project", r.project, "bound.test", ""},
				{"a second session, from another host", r.project, "unbound.test", ""},
				{"a session of another project", other, "bound.test", ""},
				{"a session of another project, a part of it", other, "bound.test", "Range: bytes=0-30"},
			} {
				head := []string{}
				if c.head != "" {
					head = append(head, c.head)
				}
				res := r.cloister("run", "-C", c.project, "--expose", r.w.Self+":ro", "--", r.w.Self, "say", "tls:"+c.host, get(c.host, "/ok/reflect/first", head...))
				out = append(out, found(c.name, strings.Contains(res.Stdout, "first said ") && !strings.Contains(res.Stdout, canary[:len(canary)/2]), "%.400s %.300s", res.Stdout, res.Stderr))
			}
			return out
		}),
	}
}
