package corpus

import (
	"strings"

	"cloister/escape"
)

func fs18a() escape.Case {
	return escape.Case{
		ID: "FS-18a", Class: "auto-run file that is not held", Attack: "make files that the host would obey and that are not held when absent: they are listed and recorded at the end",
		Source: "sandy (session-end detection)", Layers: []string{"the list at the end", "audit"},
		Host: func(w *escape.World) []escape.Finding {
			names := []string{"x.code-workspace", "lefthook.yml", ".gitlab-ci.yml", "deep/.envrc", "fresh/.git/hooks/pre-commit"}
			script := ""
			for _, n := range names {
				script += "mkdir -p \"$(dirname " + n + ")\"; echo x > " + n + "; "
			}
			res := w.Outcome(nil, "sh", "-c", script+"git init -q fresh2")
			defer clean(w.Project+"/x.code-workspace", w.Project+"/lefthook.yml", w.Project+"/.gitlab-ci.yml", w.Project+"/deep", w.Project+"/fresh", w.Project+"/fresh2")
			out := []escape.Finding{found("the command ran", res.Status == 0, "status %d: %s", res.Status, res.Stderr)}
			recorded := ""
			events, err := w.Events()
			if err != nil {
				return escape.NoHost("read the record", err)
			}
			for _, e := range events {
				if e.Kind == "file.autorun_changed" {
					recorded += e.Resource + e.Reason + "\n"
				}
			}
			for _, n := range append(names[:4:4], "fresh", "fresh2") {
				out = append(out,
					found("told of "+n, strings.Contains(res.Stderr, n), "%s", res.Stderr),
					found("recorded "+n, strings.Contains(recorded, n), "%s", recorded))
			}
			quiet := w.Outcome(nil, "sh", "-c", "echo x > plain.txt")
			clean(w.Project + "/plain.txt")
			return append(out, found("control: a plain file is not listed", !strings.Contains(quiet.Stderr, "plain.txt"), "%s", quiet.Stderr))
		},
	}
}
