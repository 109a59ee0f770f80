package corpus

import (
	"strings"

	"cloister/escape"
)

func po05a() escape.Case {
	config := func(rules string) func(w *escape.World) string {
		return func(w *escape.World) string {
			at := `"127.0.0.1:` + itoa(w.Secure) + `"`
			return "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  upstream_ca: [\"" + w.Base + "/authority.pem\"]\n" +
				"  hosts: {bound.test: " + at + "}\n  allow:\n    - {domain: bound.test, methods: [GET], paths: [" + rules + "]}\n"
		}
	}
	return escape.Case{
		ID: "PO-05a", Class: "pasted words", Attack: "a program asks for a path with * or ** in it, so that the rule which a person pastes (a hint, policy suggest) " +
			"is wider than what was seen; and for one that no rule can name",
		Source: "issue 16, second audit", Layers: []string{"policy"}, Needs: gate(),
		Host: with(config(`"/none"`), func(r *ruled) []escape.Finding {
			const star = "/ok/*/**"
			ask := func(path string) escape.Result { return r.inside("say", "tls:bound.test", get("bound.test", path)) }
			hint := ask(star)
			odd := ask("/ok/%ff")
			recorded := r.cloister("run", "--mode", "record", "--name", "seen05a", "-C", r.project, "--expose", r.w.Self+":ro", "--",
				r.w.Self, "say", "tls:bound.test", get("bound.test", star))
			suggested := r.cloister("policy", "suggest", "--session", "seen05a")
			escaped := `/ok/\*/\*\*`
			inYAML := strings.ReplaceAll(escaped, `\`, `\\`)
			out := []escape.Finding{
				found("the hint names that path alone", strings.Contains(hint.Stdout, strings.ReplaceAll(inYAML, `\`, `\\`)) && !strings.Contains(hint.Stdout, `/ok/*/**\"]`), "%.900s", hint.Stdout),
				found("control: what is recorded passes", strings.Contains(recorded.Stdout, "HTTP/1.1 200"), "%.300s %.300s", recorded.Stdout, recorded.Stderr),
				found("policy suggest names that path alone", strings.Contains(suggested.Stdout, inYAML) || strings.Contains(suggested.Stdout, escaped), "%.900s %.300s", suggested.Stdout, suggested.Stderr),
				found("a path that no rule can name: the hint says that it is wider", !strings.Contains(odd.Stdout, `/**`) || strings.Contains(odd.Stdout, "every path"), "%.900s", odd.Stdout),
			}
			if err := r.write(config(`"` + inYAML + `"`)(r.w)); err != nil {
				return append(out, found("paste the rule", false, "%v", err))
			}
			reload := r.cloister("guardian", "reload")
			same, other := ask(star), ask("/ok/a/b")
			return append(out,
				found("control: pasted, it lets the path through", reload.Status == 0 && strings.HasPrefix(same.Stdout, "HTTP/1.1 200"), "%s %.300s", reload.Stderr, same.Stdout),
				found("pasted, it lets no other through", strings.HasPrefix(other.Stdout, "HTTP/1.1 403"), "%.300s", other.Stdout))
		}),
	}
}
