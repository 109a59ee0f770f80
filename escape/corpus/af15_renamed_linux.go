package corpus

import (
	"strings"

	"cloister/escape"
)

func af15() escape.Case {
	return escape.Case{
		ID: "AF-15", Class: "branch renamed inside",
		Attack: "call the branch of a worktree otherwise, and leave ignored files there: who asks for that branch later works among them",
		Source: "independent audit: -b release", Layers: []string{"worktrees by branch"},
		Host: between("", func(r *ruled) []escape.Finding {
			r.host("git init -q -b main . && echo evil.sh >.gitignore && git add . && git -c user.name=a -c user.email=a@b.example commit -q -m first && git branch old")
			var out []escape.Finding
			for _, by := range []struct{ name, script string }{
				{"symbolic-ref", "git symbolic-ref HEAD refs/heads/release"}, {"checkout", "git checkout -q -b release"}, {"branch -m", "git branch -m release"},
				{"by hand", "d=$(git rev-parse --git-dir); echo ref: refs/heads/release >$d/HEAD"}, {"one that is there", "git checkout -q old"},
				{"a link for HEAD", "d=$(git rev-parse --git-dir); rm $d/HEAD; ln -s refs/heads/release $d/HEAD"},
				{"no branch", "git checkout -q --detach"}, {"no HEAD", "d=$(git rev-parse --git-dir); rm $d/HEAD"},
			} {
				first := r.cloister("run", "-C", r.project, "-b", "feature", "--", "sh", "-c", "echo planted >evil.sh; "+by.script)
				believed := r.host("git worktree list")
				out = append(out, found(by.name+": the session runs", first.Status != 125, "%d %s", first.Status, first.Stderr))
				for _, branch := range []string{"release", "old", "feature"} {
					res := r.cloister("run", "-C", r.project, "-b", branch, "--", "cat", "evil.sh")
					refused := res.Status == 125 && (strings.Contains(res.Stderr, "worktree of "+branch) || strings.Contains(res.Stderr, "project-identity"))
					same := branch == "feature" && strings.HasPrefix(by.name, "no ") // nothing was called otherwise
					out = append(out, found(by.name+": then -b "+branch, refused || same || !strings.Contains(res.Stdout, "planted"), "%d %s%s", res.Status, res.Stdout, res.Stderr))
				}
				if by.name == "symbolic-ref" {
					out = append(out, found("control: git takes the folder for the other branch's", strings.Contains(believed.Stdout, "feature") && strings.Contains(believed.Stdout, "[release]"), "%s", believed.Stdout))
				}
				r.host("for b in feature release old; do " + strings.Join(r.variables(), " ") + " " + r.w.Cloister + " worktree remove -f $b; done; git worktree prune; rm -rf .git/worktrees " +
					r.base + "/data/cloister/worktrees; git branch -D feature release; git branch -f old main; true")
			}
			// What lay in a worktree that was removed is not in the next one of the branch.
			r.cloister("run", "-C", r.project, "-b", "again", "--", "sh", "-c", "echo planted >evil.sh")
			kept := r.cloister("run", "-C", r.project, "-b", "again", "--", "cat", "evil.sh")
			removed := r.cloister("worktree", "remove", "-f", "-C", r.project, "again")
			anew := r.cloister("run", "-C", r.project, "-b", "again", "--", "sh", "-c", "cat evil.sh; true")
			return append(out, found("control: a branch's own worktree keeps what lies there", kept.Stdout == "planted\n", "%s", kept.Stderr),
				found("removed and made anew, it is empty of it", removed.Status == 0 && anew.Status == 0 && !strings.Contains(anew.Stdout, "planted"), "%s%s", anew.Stdout, anew.Stderr))
		}),
	}
}
