package corpus

import (
	"slices"
	"strings"

	"cloister/escape"
)

func hx16() escape.Case {
	return escape.Case{
		ID: "HX-16", Class: "markup", Attack: "tags, links, fences and templates stand in arguments, in the folder's name and in a destination's: a person reads them as they are, and no answer of the guardian is a page (in a browser: cmd/cloister/webtest)",
		Source: "notebook-intelligence #415", Layers: []string{"termsafe", "api"},
		Host: ruledWith("", "  manual_approve: [{program: echo, args: [<any>, ...]}]\n", func(r *ruled) []escape.Finding {
			return r.watched(func() []escape.Finding {
				marks := []string{"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "```\n# h\n```", "[x](javascript:alert(1))", "{{7*7}}${7*7}", "</textarea><svg/onload=alert(1)>", `"><b>`}
				args := ""
				for _, m := range marks {
					args += " '" + m + "'"
				}
				r.begin("markup", "mkdir -p '<b>bold'; cd '<b>bold'; hostexec echo"+args+"; sleep 60")
				q := r.question("run on the host")
				shown := r.cloister("approvals", "show", q.ID)
				raw := r.host("curl -sSi --unix-socket " + r.base + "/run/cloister/guardian.sock http://guardian/v1/approvals")
				texts := ""
				for _, d := range q.Details {
					texts += d.Text + "\n"
				}
				out := []escape.Finding{
					found("a question came", q.ID != "", "none did"),
					found("it is no page", strings.Contains(raw.Stdout, "Content-Type: application/json") && !strings.Contains(raw.Stdout, "<script") && !strings.Contains(raw.Stdout, "<img"), "%s", raw.Stdout),
					found("on a terminal nothing steers it", !slices.ContainsFunc([]rune(shown.Stdout), func(c rune) bool { return c < ' ' && c != '\n' }), "%q", shown.Stdout),
				}
				for _, m := range marks {
					want := strings.ReplaceAll(m, "\n", `\n`)
					want = strings.ReplaceAll(want, `"`, `\"`)
					out = append(out, found("control: the person reads "+want, strings.Contains(texts, want) && strings.Contains(shown.Stdout, want), "%s", shown.Stdout))
				}
				r.cloister("approvals", "deny", q.ID)
				r.cloister("stop", "--all", "-t", "1s")
				return out
			})
		}),
	}
}
