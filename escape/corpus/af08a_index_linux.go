package corpus

import (
	"strings"

	"cloister/escape"
)

// forge is a script that changes a file and leaves git an index by which it did not. Git
// looks again at a file as young as the index, so that the file is made older.
func forge(name string) string {
	return "echo bad >" + name + "; touch -d '1 hour ago' " + name + "; git add " + name + "; " + claim(name)
}

// claim says in the index that a staged file is as the last commit has it, and that it is
// whose the host's git saw it to be, as that of another file.
func claim(name string) string {
	return "F=" + name + " O=$(git rev-parse HEAD:" + name + ") N=$(git rev-parse :" + name + ") perl -0777 -pi -e " +
		"'$n = pack(q(H*), $ENV{N}); $o = pack(q(H*), $ENV{O}); s/\\Q$n\\E/$o/g; " +
		"substr($_, index($_, qq($ENV{F}\\0)) - 34, 8) = substr($_, index($_, qq(kept\\0)) - 34, 8)' .git/index"
}

func af08a() escape.Case {
	return escape.Case{
		ID: "AF-08a", Class: "index that lies",
		Attack: "change files, and leave an index by which git of the host shows them as unchanged: by marks, by forged times, in a later session, in a repository below",
		Source: "gitformat-index(5); ie_match_stat of git's read-cache.c", Layers: []string{"the index read again"},
		Host: between("", func(r *ruled) []escape.Finding {
			lay := "for f in marked skipped forged later kept; do echo good >$f; done; git add .; git -c user.name=a -c user.email=a@b.example commit -qm second"
			r.host(newRepository + "; " + lay + "; git init -q nest; cd nest; echo good >low; git add low; git -c user.name=a -c user.email=a@b.example commit -qm low")
			mark := "echo bad >marked; git update-index --assume-unchanged marked; echo bad >skipped; git update-index --skip-worktree skipped"
			first := r.run("sh", "-c", quietly(mark, forge("forged"), "echo bad >later; touch -d '1 hour ago' later", "cd nest", "echo bad >low; git update-index --assume-unchanged low"))
			after := r.host("git status --porcelain; git -C nest status --porcelain")
			var out []escape.Finding
			for _, name := range []string{"marked", "skipped", "forged", "later", "low"} {
				out = append(out, found("git shows "+name, strings.Contains(after.Stdout, " M "+name+"\n"), "%s", after.Stdout))
			}
			// What a session before changed, the next one claims to be as it was.
			second := r.run("sh", "-c", quietly("git add later", claim("later")))
			shown := r.host("git status --porcelain")
			out = append(out, worked("the session runs", first), worked("and the next", second),
				found("git shows what the session before changed", strings.Contains(shown.Stdout, " M later\n"), "%s", shown.Stdout),
				found("what did not change is shown as unchanged", !strings.Contains(shown.Stdout, "kept"), "%s", shown.Stdout))
			// An index that cannot be put right is listed.
			locked := r.run("sh", "-c", quietly(forge("forged"), "touch .git/index.lock"))
			out = append(out, worked("a session that leaves a lock", locked),
				found("the index is listed", strings.Contains(locked.Stderr, "\n  .git/index\n"), "%s", locked.Stderr))
			control := r.host("rm .git/index.lock; git reset -q --hard; " + quietly(mark, forge("forged")) + "; git status --porcelain")
			return append(out, found("control: without a cloister git shows none of them", !strings.Contains(control.Stdout, " M "), "%s", control.Stdout))
		}),
	}
}
