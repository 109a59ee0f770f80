package corpus

import (
	"os"
	"strings"

	"cloister/escape"
)

func af04() escape.Case {
	return escape.Case{
		ID: "AF-04", Class: "project identity",
		Attack: "have the next start take another folder for the project: a broken .git, a repository made in a folder of it or around its worktree, .git as a file, a project that moved: wider, or with fewer rules",
		Source: "independent audit: workspace/project.go", Layers: []string{"pinned identity"},
		Host: between("", func(r *ruled) []escape.Finding {
			outer := r.base + "/outer"
			p := outer + "/p"
			rules := "version: 1\\nroot: %s\\nfilesystem: {hide: [hidden.txt, sub/hidden.txt]}\\n"
			setup := "chmod -R u+rwX " + outer + " 2>/dev/null; rm -rf " + outer + "; mkdir -p " + p + "/sub && cd " + outer + " && " + newRepository + "; echo canary >" + outer + "/secret; cd p && " + newRepository +
				"; echo canary >hidden.txt; echo canary >sub/hidden.txt; echo free >sub/free; mkdir -p " + r.base + "/config/cloister/projects; printf '" + rules + "' " + p + " >" + r.base + "/config/cloister/projects/p.yaml"
			show := "cat " + outer + "/secret hidden.txt sub/hidden.txt ../hidden.txt; cat " + p + "/*/hidden.txt " + r.base + "/*/*/hidden.txt; true"
			var out []escape.Finding
			first := func(name string) {
				r.cloister("project", "remove", p)
				r.cloister("project", "remove", outer)
				clean(r.base + "/state/cloister/places") // each time a new machine
				r.host(setup)
				res := r.cloister("run", "-C", p, "--", "sh", "-c", "cat hidden.txt sub/hidden.txt sub/free")
				out = append(out, found(name+": control: the first session, its rules", res.Status == 0 && strings.Contains(res.Stdout, "free") && !strings.Contains(res.Stdout, "canary"), "%d %s%s", res.Status, res.Stdout, res.Stderr))
			}
			next := func(name, at string) {
				res := r.cloister("run", "-C", at, "--", "sh", "-c", show)
				asked := res.Status == 125 && (strings.Contains(res.Stderr, "--accept residue:project-identity") || strings.Contains(res.Stderr, "cloister: find project: "))
				out = append(out, found(name, (asked || res.Status == 0) && !strings.Contains(res.Stdout, "canary"), "%d %s%s", res.Status, res.Stdout, res.Stderr))
			}
			for name, script := range map[string]string{
				"HEAD is gone": "rm .git/HEAD", "HEAD is no link of git's": "echo x >.git/HEAD", "objects are gone": "mv .git/objects .git/o", "refs are shut": "chmod 0 .git/refs",
				"its .git is shut": "chmod 0 .git", ".git is a file": "mv .git g; echo 'gitdir: g' >.git", ".git is a link": "mv .git g; ln -s g .git", ".git leads out": "rm -rf .git; ln -s ../.git .git",
				"a repository in it": "git init -q sub", "a file .git in it": "git init -q --separate-git-dir=x sub; git -C sub config core.worktree " + p + "/sub",
				"a worktree in it":        "git init -q x; cd x; git commit -q --allow-empty -m x; git worktree add -q ../sub/w; mv ../sub/w/.git ../sub/.git",
				"its own worktree in it":  "git worktree add -q --force sub/w 2>/dev/null; mkdir -p .git/worktrees/sub; echo ../.. >.git/worktrees/sub/commondir; echo " + p + "/sub/.git >.git/worktrees/sub/gitdir; cp .git/HEAD .git/worktrees/sub/; echo gitdir: " + p + "/.git/worktrees/sub >sub/.git",
				"a bare repository in it": "git init -q --bare sub; mv sub/HEAD sub/H; cp sub/H sub/HEAD", "rules of its own": "printf 'filesystem: {hide: [\"!hidden.txt\"]}' >.cloister.yaml",
			} {
				first(name)
				res := r.cloister("run", "-C", p, "--", "sh", "-c", quietly(script))
				out = append(out, worked(name+": the session runs", res))
				next(name+": the top", p)
				next(name+": a folder in it", p+"/sub")
				r.host("chmod -R u+rwX " + p + "/.git; mv " + p + " " + outer + "/q")
				next(name+": moved", outer+"/q")
				next(name+": moved, a folder in it", outer+"/q/sub")
			}
			// While it lives, and when its shim is killed: nothing mends what it broke.
			first("killed")
			live := r.cloister("run", "-d", "-C", p, "--", "sh", "-c", quietly("rm -rf .git/HEAD", "touch done; sleep 60"))
			r.w.Until(patient, func() bool { return exists(p + "/done") })
			next("while it lives", p)
			r.cloister("stop", "--all", "-t", "1s")
			next("afterwards", p)
			// One question, and then no more.
			first("restored")
			r.host("cp -a " + p + " " + r.base + "/backup && rm -rf " + p + " && cp -a " + r.base + "/backup " + p)
			asked := r.cloister("run", "-C", p, "--", "true")
			yes := r.cloister("run", "-C", p, "--accept", "residue:project-identity", "--", "sh", "-c", show)
			again := r.cloister("run", "-C", p, "--", "sh", "-c", show)
			out = append(out, worked("a session in the background", live),
				found("restored from a backup: one question", asked.Status == 125 && strings.Contains(asked.Stderr, "restored"), "%d %s", asked.Status, asked.Stderr),
				found("answered, it is the same project with its rules", yes.Status == 0 && !strings.Contains(yes.Stdout, "canary"), "%d %s%s", yes.Status, yes.Stdout, yes.Stderr),
				found("and it is asked no more", again.Status == 0 && !strings.Contains(again.Stdout, "canary"), "%d %s%s", again.Status, again.Stdout, again.Stderr))
			// What git makes of the same: the reason why the top of a repository is no identity.
			r.host(setup + "; rm .git/HEAD")
			top := r.host("cd " + p + " && git rev-parse --show-toplevel")
			text, err := os.ReadFile(outer + "/secret")
			return append(out, found("control: git takes the folder around", strings.TrimSpace(top.Stdout) == outer && err == nil && string(text) == "canary\n", "%s%s", top.Stdout, top.Stderr))
		}),
	}
}
