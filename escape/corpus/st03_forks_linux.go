package corpus

import (
	"strings"

	"cloister/escape"
)

func st03() escape.Case {
	const rules = "  manual_approve:\n    - pattern: \"^sh job.sh$\"\n"
	return escape.Case{
		ID: "ST-03", Class: "a fork with its parent's answers", Slow: 120,
		Attack: "a fork asks for what a person allowed its parent once or for the session; a restored cloister does what was allowed before",
		Source: "issue 19", Layers: []string{"approval"},
		Host: hosted(rules, func(r *ruled) []escape.Finding {
			r.host("mkdir -p out; echo 'echo ran >>out/ran' >job.sh; chmod -R a+rwX .")
			out := r.watched(func() []escape.Finding {
				r.cloister("run", "-d", "--workspace", "overlay", "--name", "st03", "-C", r.project, "--", "sh", "-c",
					"hostexec sh job.sh; hostexec sh job.sh; touch asked; sleep 600")
				id := r.anyQuestion()
				if id == "" {
					return []escape.Finding{found("the parent asks", false, "%s", r.cloister("logs", "st03").Stdout)}
				}
				yes := r.cloister("approvals", "approve", id, "--scope", "session")
				twice := r.w.Until(patient, func() bool { return r.lines("out/ran") == 2 })
				fork := r.cloister("fork", "st03")
				return []escape.Finding{
					worked("a person says yes for the session", yes), worked("the fork is made", fork),
					found("control: the parent does it again without a question", twice && len(r.questions()) == 0, "%d times", r.lines("out/ran")),
				}
			})
			r.cloister("stop", "st03")
			for _, name := range []string{"st03-1", "st03"} {
				res := r.overlaid(name, "hostexec sh job.sh")
				out = append(out, found(name+" is refused where nobody watches", res.Status != 0 && r.lines("out/ran") == 2 && strings.Contains(res.Stderr, "nobody is watching"), "%d %s", res.Status, res.Stderr))
			}
			return out
		}),
	}
}
