package corpus

import "cloister/escape"

func hx01() escape.Case {
	return escape.Case{
		ID: "HX-01", Class: "metacharacters", Attack: "arguments of a host command hold ; && | $( ) backticks, newlines, redirections: they arrive as bytes, and no shell is started",
		Source: "claude-code 2.1.6, 2.1.7", Layers: []string{"hostexec"},
		Host: commands("  auto_approve: [{program: echo, args: [<any>, ...]}]\n", func(r *ruled) []escape.Finding {
			res := r.run("hostexec", "echo", ";", "touch pwned", "&&", "|", "$(touch pwned)", "`touch pwned`", "a\nb", ">pwned", "*", "~", `\`)
			want := "; touch pwned && | $(touch pwned) `touch pwned` a\nb >pwned * ~ \\\n"
			out := []escape.Finding{
				found("they arrive as they are", res.Status == 0 && res.Stdout == want, "status %d: %q %s", res.Status, res.Stdout, res.Stderr),
				found("nothing was run or written", !r.has("pwned"), "pwned is there"),
			}
			r.host("echo ; touch pwned")
			return append(out, found("control: a shell would have", r.has("pwned"), "nothing is there"))
		}),
	}
}
