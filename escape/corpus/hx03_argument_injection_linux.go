package corpus

import (
	"strings"

	"cloister/escape"
)

func hx03() escape.Case {
	return escape.Case{
		ID: "HX-03", Class: "argument injection", Attack: "programs that a wide pattern allows are given arguments by which they run or write something else: a person is asked",
		Source: "CmdNeedle arXiv 2606.15549; GTFOBins", Layers: []string{"hostexec", "commands"},
		Host: commands("  auto_approve:\n    - pattern: \"^(find|tar|sort|make|npm|go|rg|env|sh|python3|sed|awk) .*$\"\n", func(r *ruled) []escape.Finding {
			var out []escape.Finding
			plain := r.run("hostexec", "find", ".", "-maxdepth", "0")
			out = append(out, found("control: what the pattern means runs", plain.Status == 0, "status %d: %s", plain.Status, plain.Stderr))
			for _, argv := range [][]string{
				{"find", ".", "-maxdepth", "0", "-exec", "touch", "pwned", ";"},
				{"find", ".", "-fprint", "pwned"},
				{"tar", "-cf", "/dev/null", ".", "--checkpoint=1", "--checkpoint-action=exec=touch pwned"},
				{"sort", "-o", "pwned", "/etc/hostname"},
				{"make", "SHELL=/bin/touch", "pwned"},
				{"make", "--eval=x:;touch pwned", "x"},
				{"npm", "exec", "touch", "pwned"},
				{"go", "run", "x.go"},
				{"rg", "--pre=touch", "x"},
				{"env", "touch", "pwned"},
				{"sh", "-c", "touch pwned"},
				{"python3", "-c", "open('pwned','w')"},
				{"sed", "-n", "w pwned", "/etc/hostname"},
				{"awk", "BEGIN{system(\"touch pwned\")}"},
			} {
				res := r.run(append([]string{"hostexec"}, argv...)...)
				missing := res.Status == 127 && strings.Contains(res.Stderr, "no such program")
				asked := res.Status == 126 && strings.Contains(res.Stderr, "nobody is watching")
				out = append(out, found(strings.Join(argv[:2], " "), (asked || missing) && !r.has("pwned"), "status %d: %s", res.Status, res.Stderr))
				clean(r.project + "/pwned")
			}
			r.host("find . -maxdepth 0 -exec touch pwned ';'")
			return append(out, found("control: find does write outside", r.has("pwned"), "nothing is there"))
		}),
	}
}
