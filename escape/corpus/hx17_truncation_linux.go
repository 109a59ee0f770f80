package corpus

import (
	"strings"

	"cloister/escape"
)

func hx17() escape.Case {
	return escape.Case{
		ID: "HX-17", Class: "truncation", Attack: "what matters is hidden in the middle of a long command: by its length, behind blank lines, among many arguments; all of it is shown, or nobody is asked (that allow is dead until the end was on the screen: panel)",
		Source: "Lies-in-the-Loop", Layers: []string{"hostexec", "termsafe"},
		Host: ruledWith("", "  manual_approve: [{program: echo, args: [<any>, ...]}]\n", func(r *ruled) []escape.Finding {
			return r.watched(func() []escape.Finding {
				var out []escape.Finding
				for name, script := range map[string]string{
					"64 KiB with it in the middle": `hostexec echo "$(head -c 32000 /dev/zero | tr '\0' a)PAYLOAD$(head -c 32000 /dev/zero | tr '\0' a)"`,
					"10,000 arguments":             `hostexec echo $(seq 5000) PAYLOAD $(seq 5000)`,
				} {
					res := r.run("sh", "-c", script)
					out = append(out, found(name+": refused", res.Status == 126 && !strings.Contains(res.Stdout, "PAYLOAD"), "status %d: %.300s", res.Status, res.Stderr))
				}
				out = append(out, found("nobody was asked", len(r.pending()) == 0, "%d questions", len(r.pending())))
				for _, c := range []struct{ name, script, text string }{
					{"500 blank lines", `hostexec echo "x$(printf '%500s.' | tr ' ' '\n')PAYLOAD"; sleep 60`, `\n\n.PAYLOAD`},
					{"1,500 arguments", "hostexec echo $(seq 700) PAYLOAD $(seq 799); sleep 60", `argument 701: "PAYLOAD"`},
				} {
					r.begin("long", c.script)
					q := r.question("run on the host")
					shown := r.cloister("approvals", "show", q.ID)
					out = append(out, found(c.name+": all is shown", strings.Contains(shown.Stdout, c.text), "%d lines: %.300s", strings.Count(shown.Stdout, "\n"), shown.Stdout))
					r.cloister("approvals", "deny", q.ID)
					r.cloister("stop", "--all", "-t", "1s")
				}
				r.begin("short", "hostexec echo short PAYLOAD >ran; sleep 60")
				q := r.question("echo short")
				r.cloister("approvals", "approve", q.ID)
				ran := r.w.Until(patient, func() bool { return r.lines("ran") == 1 })
				r.cloister("stop", "--all", "-t", "1s")
				return append(out, found("control: a short one is asked about, and runs", q.ID != "" && ran, "asked %t, ran %t", q.ID != "", ran))
			})
		}),
	}
}
