package corpus

import (
	"strings"

	"cloister/escape"
)

func hx22() escape.Case {
	const wide = "proxy: {allow: [{domain: poisoned.example}]}\n"
	return escape.Case{
		ID: "HX-22", Class: "policy poisoning", Attack: "the agent, or a branch that is pulled, brings rules in .cloister.yaml and policy files of the repository: nothing is given before a person trusted exactly these bytes",
		Source: "agentcage #173; CVE-2025-59536", Layers: []string{"protect", "trust"},
		Host: ruledWith(", unlisted_domain_behavior: deny", "  manual_approve: [{pattern: \"^unused$\"}]\n", func(r *ruled) []escape.Finding {
			trust := func() escape.Result {
				r.w.Dir = r.project
				defer func() { r.w.Dir = r.w.Project }()
				return r.cloister("project", "trust")
			}
			known := func() bool { return r.run("getent", "hosts", "poisoned.example").Status == 0 }
			hosted := func() escape.Result { return r.run("hostexec", "touch", "made") }
			var out []escape.Finding
			add := func(name string, held bool, res escape.Result) {
				out = append(out, found(name, held, "status %d: %s%s", res.Status, res.Stdout, res.Stderr))
			}
			// What the agent writes is a proposal as any other, and is told.
			res := r.run("sh", "-c", "printf '"+strings.TrimSpace(wide)+"\\n' >.cloister.yaml")
			add("written inside: told at the end", strings.Contains(res.Stderr, ".cloister.yaml"), res)
			res = r.run("getent", "hosts", "poisoned.example")
			add("written inside: not in force, and told", res.Status != 0 && strings.Contains(res.Stderr, "project trust"), res)
			for _, script := range []string{"echo '#' >>.cloister.yaml", "rm .cloister.yaml", "mv .cloister.yaml x", "echo x >x && mv x .cloister.yaml"} {
				res := r.run("sh", "-c", script)
				add("one that is there: "+script, res.Status != 0, res)
			}
			r.host("rm -f .cloister.yaml x")
			// Files of names that other programs read as policy are none of ours.
			r.host("mkdir -p .cloister/policy policy; for f in .cloister/policy/a.cedar policy/a.cedar policy.cedar; do echo 'permit (principal, action, resource);' >$f; done; printf 'version: 1\\nhostexec: {auto_approve: [{pattern: \"^touch made$\"}]}\\n' >config.yaml")
			res = hosted()
			add("policy files of the repository", res.Status == 126 && !r.has("made") && !known(), res)
			// A pulled branch has a proposal, with a host command in it.
			r.host("printf 'hostexec: {auto_approve: [{pattern: \"^touch made$\"}]}\\n' >.cloister.yaml")
			res = hosted()
			add("a proposal of host commands", res.Status != 0 && !r.has("made"), res)
			trust()
			res = hosted()
			add("control: one that a person trusts", res.Status == 0 && r.has("made"), res)
			r.host("printf '" + strings.TrimSpace(wide) + "\\n' >.cloister.yaml")
			add("a proposal of destinations", !known(), escape.Result{})
			trusted := trust()
			add("control: when a person trusts it, it holds", trusted.Status == 0 && known(), trusted)
			r.host("printf 'proxy: {allow: [{domain: poisoned.example}, {domain: more.example}]}\\n' >.cloister.yaml")
			add("other bytes wait again", !known(), escape.Result{})
			return out
		}),
	}
}
