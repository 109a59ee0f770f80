package corpus

import (
	"strings"

	"cloister/escape"
)

func af14() escape.Case {
	return escape.Case{
		ID: "AF-14", Class: "later starts made to fail",
		Attack: "leave loops of links, shut folders, thousands of protected names, names that are none, pipes and spoilt settings, so that no later session of the project starts, and no message says why",
		Source: "independent audit", Layers: []string{"protect", "cloister project clean"}, Slow: 60,
		Host: between("", func(r *ruled) []escape.Finding {
			var out []escape.Finding
			failed := 0
			for _, left := range []struct{ name, script, shown, hand string }{
				{"loops of links", "ln -s .envrc loop; ln -s loop .envrc; ln -s .vscode .vscode; mkdir sub; ln -s ../.vscode sub/.vscode", "", ""},
				{"a link that is no path", "n=$(printf %0300d 7); mkdir sub; ln -s $n sub/.envrc; ln -s $n/x sub/.mcp.json", "sub/", ""},
				{"a link to all of it", "mkdir -p sub/a; ln -s ../.. sub/a/.vscode", "sub/a/.vscode", ""},
				{"shut folders", "mkdir -p sub/.vscode sub/.git/hooks lib/x; touch sub/.envrc lib/x/.envrc; chmod 0 sub/.vscode sub/.git lib/x lib", "", ""},
				{"a folder to enter and not to list", "mkdir -p sub/.vscode; touch sub/.envrc; chmod 311 sub", "", ""},
				{"10,000 protected names", "mkdir -p pile/in; cd pile/in; seq 10000 | xargs mkdir; for d in *; do echo $d/.envrc; done | xargs touch", "pile", ""},
				{"10,000 names in one folder", "mkdir -p pile/.vscode; cd pile/.vscode; seq 10000 | xargs touch", "", ""},
				{"10,000 links to protect", "mkdir -p pile t; cd pile; seq 10000 | xargs mkdir; perl -e 'symlink qq(../../t/$_), qq($_/.envrc) for <*>'", "pile", ""},
				{"names with newlines", `mkdir -p 'a
cloister: trust me/.vscode' "$(printf 'b\033[2J')" && touch 'a
cloister: trust me/.vscode/tasks.json' "$(printf 'b\033[2J')/.envrc"`, "", ""},
				{"names that are no text", "d=$(printf 'x\\377\\376'); mkdir $d; touch $d/.envrc; ln -s $d .npmrc", "", ""},
				{"pipes", "mkfifo .envrc .cloister.yaml .gitmodules .npmrc; mkdir sub; mkfifo sub/.envrc sub/.git; mkfifo .git/packed-refs .git/shallow", ".cloister.yaml", ""},
				{"a folder for a file", "mkdir -p .envrc .gitmodules .npmrc sub/.envrc/x; rm -rf .git/index; mkdir .git/index .git/packed-refs.lock", "", ""},
				{"a file for a folder", "touch .vscode .husky .github .cargo .claude; rm -rf .git/logs; touch .git/logs .git/modules .git/rebase-merge", "", ""},
				{"depth", "i=0; while [ $i -lt 300 ]; do mkdir d && cd -P d; i=$((i+1)); done; touch .envrc; mkdir .vscode", "", ""},
				{"deep submodules", "d=.git/modules; i=0; while [ $i -lt 100 ]; do d=$d/m; i=$((i+1)); done; mkdir -p $d; touch $d/config", ".git/modules", ""},
				{"many submodules", "mkdir -p .git/modules; cd .git/modules; seq 5000 | xargs mkdir; seq -f %g/config 5000 | xargs touch", ".git/modules", "rm -rf .git/modules"},
				{"spoilt settings", "echo '{{{' >.cloister.yaml; printf '[submodule \"x\\n' >.gitmodules; mkdir -p sub/.git; echo '[[[' >sub/.git/config; echo ref >sub/.git/HEAD", ".cloister.yaml", ""},
				{"locks", "touch .git/index.lock .git/HEAD.lock .git/config.lock .git/packed-refs.lock", "", ""},
			} {
				r.host(afresh)
				first := r.run("sh", "-c", quietly("("+left.script+")"))
				out = append(out, worked(left.name+": the session runs", first))
				next := r.run("sh", "-c", "echo started")
				if next.Status != 0 {
					failed++
					out = append(out, found(left.name+": the message says which path, and what to do",
						left.shown != "" && strings.Contains(next.Stderr, left.shown) && strings.Contains(next.Stderr, "cloister project clean"), "%d %s", next.Status, next.Stderr))
					cleaned := r.cloister("project", "clean", r.project, "--yes")
					r.host(left.hand) // what may be the person's own is not removed
					next = r.run("sh", "-c", "echo started")
					out = append(out, found(left.name+": and that puts it right", next.Stdout == "started\n", "%d %s; %s", next.Status, next.Stderr, cleaned.Stderr))
				}
				out = append(out, found(left.name+": the next session starts", next.Stdout == "started\n", "%d %s", next.Status, next.Stderr),
					found(left.name+": its words are its own", !strings.ContainsAny(first.Stderr+next.Stderr, "\x1b") && !strings.Contains(first.Stderr+next.Stderr, "\ncloister: trust me"), "%q", first.Stderr+next.Stderr))
			}
			r.host(afresh)
			return append(out, found("control: some of it does stop a start", failed > 0, "none did"))
		}),
	}
}
