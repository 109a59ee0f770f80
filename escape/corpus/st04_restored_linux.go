package corpus

import (
	"strings"

	"cloister/escape"
)

// forged is a host's script that writes an interrupted change into a store by hand: the file $1 of the
// project would be made of what is staged. $2 is the version that it claims.
const forged = `set -e
j=$AT/journals/abc; mkdir -p $j/stage $j/old; echo planted >$j/stage/0
printf '{"version":%s,"project":"%s","root":{"dev":%s,"ino":%s,"mtime":0,"ctime":0,"size":0},"time":"2026-01-01T00:00:00Z","self":{"ino":%s,"born":0},"steps":[{"path":"%s","new":{"kind":"file","mode":420}}],"apart":true}' \
	"$2" "$PWD" $(stat -c '%d %i' .) $(stat -c %i $j) "$1" >$j/plan.json
echo "[$(stat -c %i $j/stage/0)]" >$j/staged.json
`

func st04() escape.Case {
	return escape.Case{
		ID: "ST-04", Class: "stores that a backup brought back", Slow: 120,
		Attack: "put links, pipes, endless files, layers that lie above and changes that nobody ordered into the store of a stopped cloister, and a link in the place of a private home, as a backup or another account may",
		Source: "attack on the next start", Layers: []string{"store", "apply", "homes"},
		Host: between("", func(r *ruled) []escape.Finding {
			outside, at := r.base+"/outside", r.base+"/data/cloister/state/st04"
			in := "AT=" + at + " OUT=" + outside + "; "
			made := r.host(newRepository + "; mkdir -p ../outside/docs; echo canary >../outside/secret; echo mine >../outside/docs/thesis; echo one >f")
			out := []escape.Finding{worked("the project is made", made), worked("the session", r.overlaid("st04", "echo two >f")),
				worked("its store is kept aside", r.host("cp -a "+at+" ../kept"))}
			before := entries(outside)
			back := func() escape.Result { return r.host("rm -rf " + at + "; cp -a ../kept " + at) }
			for name, script := range map[string]string{
				"a lock that leads to a new file": "ln -sf $OUT/made $AT/lock", "a note of its use that leads to a new file": "ln -sf $OUT/made $AT/use",
				"journals that lead to documents": "rm -rf $AT/journals; ln -s $OUT $AT/journals", "bases that lead to documents": "rm -rf $AT/bases; ln -s $OUT/docs $AT/bases",
				"a description that is a pipe": "rm $AT/workspace.json; mkfifo $AT/workspace.json", "a description without an end": "truncate -s 1T $AT/workspace.json",
				"a description that leads to a key": "ln -sf $OUT/secret $AT/workspace.json", "a layer that lies above": `sed -i 's|"upper":|"layers":["../../../../.."],"upper":|' $AT/workspace.json`,
				"an upper that lies above": `sed -i 's|"upper":"[a-z0-9]*"|"upper":"../../../../.."|' $AT/workspace.json`, "a workspace that lies elsewhere": "rm -rf $OUT/../moved; mv $AT $OUT/../moved; ln -s $OUT/../moved $AT",
			} {
				planted := r.host(in + script)
				diff, run := r.cloister("diff", "st04"), r.overlaid("st04", "true")
				const says = "is not as Cloister made it"
				out = append(out, worked("planted: "+name, planted), found(name, diff.Status != 0 && run.Status != 0 &&
					strings.Contains(diff.Stderr, says) && strings.Contains(run.Stderr, says) && entries(outside) == before,
					"%d %s%d %s%s", diff.Status, diff.Stderr, run.Status, run.Stderr, entries(outside)), worked("it is put back", back()))
			}
			for _, version := range []string{"2", "3"} {
				for _, path := range []string{"../outside/planted", outside + "/planted", ".git/hooks/post-checkout"} {
					planted := r.host(in + "set -- " + path + " " + version + "; " + forged)
					control := r.host("cp " + at + "/journals/abc/stage/0 " + path + "; test -s " + path + "; rm " + path)
					diff, run := r.cloister("diff", "st04"), r.overlaid("st04", "true")
					out = append(out, worked("a change is forged", planted), worked("control: it could be made", control),
						found("a forged change of "+path, diff.Status == 0 && run.Status == 0 && strings.Contains(diff.Stderr, "is left as it is") &&
							entries(outside) == before && !r.has(".git/hooks/post-checkout"), "%d %s%d %s", diff.Status, diff.Stderr, run.Status, run.Stderr),
						worked("it is put back", back()))
				}
			}
			diff := r.cloister("diff", "st04")
			out = append(out, found("control: as it was made it is shown", diff.Status == 0 && strings.Contains(diff.Stdout, "+two"), "%d %s", diff.Status, diff.Stderr))
			homes := r.base + "/data/cloister/homes"
			control := r.host("for h in " + homes + "/*; do case $h in *.project) ;; *) rm -rf $h; ln -s " + outside + " $h; cat $h/secret; esac; done")
			res := r.run("sh", "-c", "cat ~/secret")
			return append(out, found("control: the link leads to the key", control.Stdout == "canary\n", "%q", control.Stdout),
				found("a private home that is a link", res.Status != 0 && !strings.Contains(res.Stdout, "canary") && strings.Contains(res.Stderr, "it is a link") &&
					entries(outside) == before, "%d %s%s", res.Status, res.Stdout, res.Stderr),
				worked("the link is removed", r.host("find "+homes+" -type l -delete")), worked("control: then a session starts", r.run("true")),
				worked("the workspace is given up", r.cloister("discard", "st04")))
		}),
	}
}
