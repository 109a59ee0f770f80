package corpus

import (
	"cloister/escape"
	"strings"
)

func hx04() escape.Case {
	return escape.Case{
		ID: "HX-04", Class: "git options", Attack: "git of the host with -c, --config-env, --exec-path, -C, --git-dir, --work-tree, --upload-pack, ext:: and aliases, under a rule that allows all of git",
		Source: "sandvault #177", Layers: []string{"hostexec", "commands"},
		Host: commands("  auto_approve:\n    - pattern: \"^git .*$\"\n    - pattern: \"^/usr/bin/git .*$\"\n", func(r *ruled) []escape.Finding {
			canary := r.base + "/canary"
			var out []escape.Finding
			r.host("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x")
			for _, argv := range [][]string{
				{"git", "-c", "alias.x=!touch " + canary, "x"}, {"git", "-calias.x=!touch " + canary, "x"}, {"git", "--config-env=alias.x=HOME", "x"}, {"git", "--exec-path=" + r.project, "status"},
				{"git", "-C", "/", "status"}, {"git", "--git-dir=" + r.project + "/.git", "log"}, {"git", "--work-tree=/", "status"}, {"git", "--bare", "status"}, {"git", "--namespace=x", "log"}, {"git", "--super-prefix=x", "status"},
				{"git", "fetch", "--upload-pack=touch " + canary, "file:///nonexistent/x.git"}, {"git", "ls-remote", "--upload-pack=touch " + canary, "file:///nonexistent/x.git"}, {"git", "clone", "ext::touch " + canary, "x"},
				{"git", "clone", "-u", "touch " + canary, "file://" + r.project, "x"}, {"git", "archive", "--remote=ext::touch " + canary, "HEAD"}, {"git", "diff", "--ext-diff"}, {"git", "grep", "-Otouch", "x"}, {"git", "bisect", "run", "touch", canary},
				{"git", "rebase", "--exec", "touch " + canary, "HEAD"}, {"git", "submodule", "foreach", "touch " + canary}, {"git", "filter-branch", "--tree-filter", "touch " + canary}, {"git", "config", "alias.x", "!touch"}, {"git", "help", "-m"}, {"git", "credential", "fill"},
				{"/usr/bin/git", "status"}, {"/usr/bin/git", "-c", "alias.x=!touch " + canary, "x"}, {"/usr/lib/git-core/git", "status"},
			} {
				res := r.run(append([]string{"hostexec"}, argv...)...)
				out = append(out, found(strings.Join(argv, " "), res.Status != 0 && res.Stdout == "" && !exists(canary), "%d %q %s", res.Status, res.Stdout, res.Stderr))
				clean(canary)
			}
			r.host("git -c alias.x='!touch " + canary + "' x")
			return append(out, found("control: outside an option runs a program", exists(canary), "nothing is there"))
		}),
	}
}
