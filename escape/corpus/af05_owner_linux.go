package corpus

import (
	"strings"

	"cloister/escape"
)

// shared05 is a folder of root's in which every user may make a name.
const shared05 = "/dev/shm"

func af05() escape.Case {
	return escape.Case{
		ID: "AF-05", Class: "foreign ownership",
		Attack: "another user lays a .git down above, in or beside the project of root or of a user, or says in a file of their own that it is safe: what they choose becomes the project",
		Source: "CVE-2022-24765; git safe.directory", Layers: []string{"ownership check"},
		Host: between("", func(r *ruled) []escape.Finding {
			var out []escape.Finding
			refused := func(name, at string) {
				for _, words := range [][]string{{"run", "-C", at, "--", "ls", "-a"}, {"worktree", "list", "-C", at}, {"run", "-C", at, "-b", "x", "--", "true"}} {
					res := r.cloister(words...)
					out = append(out, found(name+": "+words[0], res.Status != 0 && strings.Contains(res.Stderr, "belongs to another user"), "%d %s%s", res.Status, res.Stdout, res.Stderr))
				}
				raw := r.host("cd " + at + " && git status")
				out = append(out, found("control: "+name+": git refuses it by the same reason", strings.Contains(raw.Stderr, "dubious ownership"), "%s%s", raw.Stdout, raw.Stderr))
			}
			if !r.w.ByRoot {
				// A user can give nothing away: what belongs to another one is root's folder around.
				mine := shared05 + "/.git"
				if exists(mine) {
					return escape.NoHost("look", errTaken)
				}
				defer clean(mine, shared05+"/af05")
				r.host("mkdir " + shared05 + "/af05; git init -q " + shared05)
				refused("a repository whose working tree is another user's", shared05+"/af05")
				clean(mine)
				res := r.cloister("run", "-C", r.project, "--", "true")
				return append(out, worked("control: a project of the user's own", res))
			}
			theirs := "chown -R 65534:65534 "
			r.host("mkdir -p above/mine own && cd above && " + newRepository + "; " + theirs + ".git")
			refused("above", r.project+"/above/mine")
			r.host("mkdir around && cd around && " + newRepository + "; " + theirs + "$PWD; chown -R 0:0 .git")
			refused("the folder itself", r.project+"/around")
			r.host("git init -q --separate-git-dir=$PWD/elsewhere apart && git -C apart config core.worktree $PWD/apart && " + theirs + "elsewhere")
			refused("a git folder elsewhere", r.project+"/apart")
			r.host("mkdir main && cd main && " + newRepository + "; git worktree add -q ../tree; " + theirs + ".git")
			refused("the repository of a worktree", r.project+"/tree")
			// A home of another user's, as sudo may leave it: what it says is safe is theirs to say.
			home := r.base + "/theirs"
			r.host("mkdir -p " + home + "; git config -f " + home + "/.gitconfig safe.directory '*'; " + theirs + home)
			res := r.host("HOME=" + home + " " + strings.Join(r.variables(), " ") + " " + r.w.Cloister + " run -C above/mine -- true")
			out = append(out, found("safe by another user's file", res.Status != 0 && strings.Contains(res.Stderr, "belongs to another user"), "%d %s", res.Status, res.Stderr))
			own := r.base + "/ours"
			r.host("mkdir -p " + own + "; git config -f " + own + "/.gitconfig safe.directory '*'")
			yes := r.host("HOME=" + own + " " + strings.Join(r.variables(), " ") + " " + r.w.Cloister + " run -C above/mine -- true")
			return append(out, worked("control: safe by the person's own file", yes))
		}),
	}
}
