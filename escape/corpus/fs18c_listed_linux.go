package corpus

import (
	"strings"

	"cloister/escape"
)

func fs18c() escape.Case {
	return escape.Case{
		ID: "FS-18c", Class: "files of other programs, absent", Attack: "make them, also in other letters, and with names that write to a terminal: each is listed and recorded, no byte of a name reaches the terminal",
		Source: "sandy (session-end detection); CVE-2025-59944; CVE-2023-28101", Layers: []string{"the list at the end", "audit", "termsafe"},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			names := append(obeyed(), "deep/.VSCode/tasks.json", "deep/.EnvRC", "deep/.RProfile", "deep/.hg/hgrc", "deep/.jj/repo/config.toml", "deep/.GIT/Hooks/pre-commit", "X.Code-Workspace")
			script := ""
			for _, n := range names {
				script += "mkdir -p \"$(dirname '" + n + "')\"; echo x >'" + n + "'; "
			}
			evil := "deep/\x1b]0;title\x07\n{\"v\":1}\u202e.code-workspace"
			res := r.run("sh", "-c", script+"echo x >\"$0\"", evil)
			out := []escape.Finding{found("the command ran", res.Status == 0, "status %d: %s", res.Status, res.Stderr)}
			recorded := r.cloister("audit", "tail", "-n", "0", "--json", "--kind", "file.autorun_changed")
			for _, n := range names {
				out = append(out, found("told of "+n, strings.Contains(res.Stderr, n), "%s", res.Stderr), found("recorded "+n, strings.Contains(recorded.Stdout, n), "%.2000s", recorded.Stdout))
			}
			for name, text := range map[string]string{"on the terminal": res.Stderr, "in the record": recorded.Stdout, "in what tail prints": r.cloister("audit", "tail", "-n", "0").Stdout, "in the list": r.cloister("list", "-a").Stdout} {
				out = append(out, found("no control byte "+name, !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c == 0x7f || c == 0x202e }), "%.600q", text))
			}
			out = append(out, found("the name is told all the same", strings.Contains(res.Stderr, "title"), "%s", res.Stderr))
			plain := r.run("sh", "-c", "echo x >plain.txt; mkdir -p logs; ln -s ../plain.txt logs/HEAD")
			return append(out, found("control: plain files and links are not listed", plain.Status == 0 && !strings.Contains(plain.Stderr, "plain.txt") && !strings.Contains(plain.Stderr, "logs/HEAD"), "%s", plain.Stderr))
		}),
	}
}
