package corpus

import (
	"strings"

	"cloister/escape"
)

func hx25() escape.Case {
	return escape.Case{
		ID: "HX-25", Class: "terminal sharing", Attack: "a host command opens the terminal, or asks for what only a person's program may do (HX-27: cloister itself)",
		Source: "CVE-2026-32048", Layers: []string{"hostexec", "commands"},
		Host: hosted("  auto_approve:\n    - pattern: \"^cat /dev/tty$\"\n    - pattern: \"^cloister .*$\"\n    - pattern: \"^cat /dev/null$\"\n", func(r *ruled) []escape.Finding {
			var out []escape.Finding
			res := r.run("hostexec", "cat", "/dev/tty")
			out = append(out, found("no terminal", res.Status == 1 && strings.Contains(res.Stderr, "No such device or address"), "status %d: %s", res.Status, res.Stderr))
			for _, words := range []string{"cloister run --accept residue:wide-workspace -- id", "cloister policy explain example.com", "cloister guardian stop"} {
				res := r.run(append([]string{"hostexec"}, strings.Fields(words)...)...)
				out = append(out, found(words, res.Status == 126 || res.Status == 127, "status %d: %s", res.Status, res.Stderr))
			}
			control := r.run("hostexec", "cat", "/dev/null")
			return append(out, found("control: cat runs", control.Status == 0, "status %d: %s", control.Status, control.Stderr))
		}),
	}
}
