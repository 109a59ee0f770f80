package corpus

import (
	"strings"

	"cloister/escape"
)

// plantBare makes the top of a project a bare repository that runs a program, and its
// .git none.
func plantBare(mark, away string) string {
	return "mkdir -p objects refs/heads; echo 'ref: refs/heads/main' >HEAD; printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = .\\n\\tfsmonitor = touch " +
		mark + "; false\\n' >config; " + away
}

func af07() escape.Case {
	return escape.Case{
		ID: "AF-07", Class: "repository planted where git looks",
		Attack: "take .git/HEAD away, or spoil it, or shut .git, and plant a bare repository at the top: git of the host runs its fsmonitor at the next prompt",
		Source: "independent audit; setup.c of git (setup_git_directory_gently)", Layers: []string{"protect", "the list at the end"},
		Host: between("", func(r *ruled) []escape.Finding {
			var out []escape.Finding
			for name, away := range map[string]string{
				"moved": "mv .git/HEAD .git/HEAD.old", "removed": "rm .git/HEAD", "spoilt": "echo nothing >.git/HEAD", "a folder": "rm .git/HEAD; mkdir .git/HEAD",
				"a link": "ln -sfn ../../x .git/HEAD", "shut": "chmod 0 .git/HEAD", "git shut": "chmod 0 .git", "objects shut": "chmod 0 .git/objects",
				"objects": "mv .git/objects .git/o; rm -rf .git/refs; mv .git .g", "commondir": "rm .git/HEAD; rm -rf commondir; mv commondir c; echo sub >commondir",
			} {
				mark := r.base + "/ran"
				clean(mark)
				r.host("chmod 700 .git 2>/dev/null; find . -mindepth 1 -delete; " + newRepository + "; mkdir d")
				res := r.run("sh", "-c", quietly(plantBare(mark, away)))
				after := r.host("git status; git diff; git log -1; cd d; git status; true")
				out = append(out, worked(name+": the session runs", res), found(name+": nothing runs", !exists(mark), "%s%s", after.Stdout, after.Stderr),
					found(name+": the person hears of the settings", strings.Contains(res.Stderr, "\n  config"), "%s", res.Stderr))
			}
			// During the session too: another terminal's prompt asks git all the time.
			mark := r.base + "/live"
			r.host("chmod 700 .git 2>/dev/null; find . -mindepth 1 -delete; " + newRepository)
			live := r.cloister("run", "-d", "-C", r.project, "--", "sh", "-c", quietly(plantBare(mark, "rm .git/HEAD; touch planted; sleep 60")))
			planted := r.w.Until(patient, func() bool { return r.has("planted") })
			during := r.host("git status; git push; true")
			r.cloister("stop", "--all", "-t", "1s")
			after := r.host("git status; true")
			out = append(out, worked("a session in the background", live),
				found("while it lives, nothing runs", planted && !exists(mark), "%v %s%s", planted, during.Stdout, during.Stderr),
				found("and when it was ended", !exists(mark), "%s%s", after.Stdout, after.Stderr))
			// Repositories among the objects, to which a remote of the old kind leads.
			r.host("find . -mindepth 1 -delete; " + newRepository)
			hidden := r.run("sh", "-c", quietly("git init -q --bare .git/objects/evil", "git init -q --bare .git/objects/ab/cd", "git init -q --bare .git/lib", "git init -q --bare .git/modules/x"))
			for _, path := range []string{".git/objects/evil", ".git/objects/ab/cd", ".git/lib", ".git/modules/x/config"} {
				out = append(out, found("told of "+path, strings.Contains(hidden.Stderr, "\n  "+path), "%s", hidden.Stderr))
			}
			control := r.base + "/control"
			r.host("find . -mindepth 1 -delete; " + newRepository + "; " + quietly(plantBare(control, "rm .git/HEAD")) + "; git status")
			return append(out, found("control: without a cloister git runs it", exists(control), "%s is absent", control))
		}),
	}
}
