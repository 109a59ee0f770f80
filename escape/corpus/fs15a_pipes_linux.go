package corpus

import (
	"strings"

	"cloister/escape"
)

func fs15a() escape.Case {
	return escape.Case{
		ID: "FS-15a", Class: "pipes for files", Attack: "put pipes where cloister, or git that it calls, reads a file: it waits for nobody, and says where the pipe is; lists of other places for objects are held",
		Source: "own corpus: git opens what it reads without looking", Layers: []string{"launcher", "host git", "the list at the end"},
		Except: map[escape.Column]string{escape.GVisor: "a pipe that is made inside is one inside alone"},
		Host: with(func(*escape.World) string { return "version: 1\nproxy: {presets: []}\n" }, func(r *ruled) []escape.Finding {
			before := r.host("git init -q . && git -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m first")
			free := r.cloister("run", "-C", r.project, "-b", "free15", "--", "true")
			made := r.run("sh", "-c", "mkfifo .gitignore package.json Makefile .git/packed-refs .git/shallow; mkdir -p .git/objects/info; { echo /elsewhere >.git/objects/info/alternates; } 2>/dev/null; true")
			out := []escape.Finding{
				found("control: before it a branch's working tree is made", before.Status == 0 && free.Status == 0, "%s%s", before.Stderr, free.Stderr),
				found("the list of places is held", made.Status == 0 && !r.has(".git/objects/info/alternates"), "%d %s", made.Status, made.Stderr),
			}
			for _, words := range [][]string{{"run", "-C", r.project, "-b", "other15", "--", "true"}, {"worktree", "list", "-C", r.project}} {
				res := r.cloister(words...)
				out = append(out, found(words[0], res.Status > 0 && strings.Contains(res.Stderr, "a pipe") && res.Took < patient, "%d after %v: %s", res.Status, res.Took, res.Stderr))
			}
			again := r.cloister("run", "-C", r.project, "--", "true")
			return append(out, found("the next run starts", again.Status == 0 && again.Took < patient, "%d %s", again.Status, again.Stderr))
		}),
	}
}
