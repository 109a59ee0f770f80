package corpus

import "cloister/escape"

func fs15() escape.Case {
	return escape.Case{
		ID: "FS-15", Class: "embedded bare repo", Attack: "make a bare repository with a core.fsmonitor in a folder of the project; the next start and git status at the top of the project run nothing",
		Source: "git safe.bareRepository; CVE-2024-32465", Layers: []string{"no git is run by cloister"},
		Host: func(w *escape.World) []escape.Finding {
			mark := w.Base + "/embedded-ran"
			script := "mkdir -p emb/objects emb/refs/heads && echo 'ref: refs/heads/main' > emb/HEAD && printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = touch " + mark + "; false\\n' > emb/config"
			made := w.Outcome(nil, "sh", "-c", script)
			defer clean(w.Project+"/emb", mark)
			again := w.Outcome(nil, "true")
			status, err := w.Exec("git", "status", "--porcelain")
			quiet := !exists(mark)
			w.Dir = w.Project + "/emb"
			_, _ = w.Exec("git", "-c", "safe.bareRepository=all", "status")
			inner, ierr := w.Run([]string{"-C", w.Project + "/emb"}, "true")
			w.Dir = w.Project
			return []escape.Finding{
				found("it was made", made.Status == 0, "status %d: %s", made.Status, made.Stderr),
				found("the next cloister starts", again.Status == 0, "status %d: %s", again.Status, again.Stderr),
				found("git status at the top", err == nil && status.Status == 0, "%s", status.Stderr),
				found("nothing ran", quiet, "%s", mark),
				found("a start in it runs nothing either", ierr == nil && inner.Status >= 0, "status %d", inner.Status),
				found("control: git in that folder runs it", exists(mark), "%s is absent", mark),
			}
		},
	}
}
