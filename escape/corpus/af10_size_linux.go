package corpus

import (
	"strings"

	"cloister/escape"
)

func af10() escape.Case {
	return escape.Case{
		ID: "AF-10", Class: "protection shed by size",
		Attack: "make so many names, or so deep ones, that the next start looks at no protected name behind them",
		Source: "independent audit: 20,001 names", Layers: []string{"protect"},
		Host: between("", func(r *ruled) []escape.Finding {
			deep := "z/" + strings.Repeat("d/", 12)
			r.host(newRepository + "; mkdir -p zzz/.vscode " + deep + "; echo x >zzz/.vscode/tasks.json; echo x >" + deep + ".envrc")
			first := r.run("sh", "-c", "mkdir aaa && cd aaa && i=0; while [ $i -lt 25 ]; do mkdir $i; (cd $i; seq 1000 | xargs touch); i=$((i+1)); done")
			write := quietly("echo bad >zzz/.vscode/tasks.json", "mv zzz zz2", "echo bad >"+deep+".envrc", "echo good >free")
			second := r.run("sh", "-c", write)
			out := []escape.Finding{worked("the names are made", first), worked("the next session", second), r.same("zzz/.vscode/tasks.json", "x\n"), r.same(deep+".envrc", "x\n"),
				found("control: beside them it can write", r.has("free"), "it could not")}
			// A path longer than the kernel takes cannot be protected by its name.
			far := r.run("perl", "-e", "for (1 .. 25) {mkdir q(0) x 200 or die; chdir q(0) x 200 or die}")
			refused := r.run("true")
			accepted := r.cloister("run", "-C", r.project, "--accept", "residue:unprotected", "--", "true")
			name := strings.Repeat("0", 150)
			r.host("rm -rf 000*")
			again := r.run("true")
			return append(out, worked("a path too long is made", far),
				found("the list at the end names it", strings.Contains(far.Stderr, "\n  "+strings.Repeat("0", 200)), "%s", far.Stderr),
				found("the start says which path, or holds all", strings.Contains(refused.Stderr, name), "%d %s", refused.Status, refused.Stderr),
				found("and goes on with a word", accepted.Status == 0 && strings.Contains(accepted.Stderr, name), "%d %s", accepted.Status, accepted.Stderr), worked("control: without it it starts", again))
		}),
	}
}
