package corpus

import (
	"os"
	"strings"

	"cloister/escape"
)

func af17a() escape.Case {
	return escape.Case{
		ID: "AF-17a", Class: "folders beside the project",
		Attack: "change what git and the person's programs obey in a folder that is shown writable beside the project, and have a revert remove the person's own",
		Source: "attack on the next start", Layers: []string{"protect", "the list at the end", "review"},
		Host: between("", func(r *ruled) []escape.Finding {
			r.host(afresh)
			lib := r.base + "/lib"
			made := r.host("mkdir " + lib + " && cd " + lib + " && " + newRepository + " && echo mine >.envrc && mkdir -p deep .vscode && echo mine >deep/.envrc && echo mine >.vscode/settings.json && git init -q nested && git init -q --bare bare")
			out := []escape.Finding{worked("a repository lies beside the project", made)}
			text := func(name string) string {
				text, err := os.ReadFile(lib + "/" + name)
				if err != nil {
					return err.Error()
				}
				return string(text)
			}
			config := text(".git/config")
			res := r.cloister("run", "-C", r.project, "--expose", lib+":rw", "--", "sh", "-c", "sleep 2; cd "+lib+"; "+ // what lies there is looked at beside the command
				quietly("git config core.fsmonitor evil", "git -C nested config core.fsmonitor evil", "echo evil >.git/hooks/post-checkout", "echo evil >.git/config",
					"echo evil >.envrc", "rm -f .envrc", "mv .git gone", "mv .vscode gone", "echo evil >.vscode/settings.json", "echo evil >deep/new", "mv deep/new deep/.envrc",
					"echo evil >bare/config", "echo evil >.npmrc", "echo staged >staged; git add staged; git -c user.name=a -c user.email=a@b.example commit -qm second"))
			out = append(out, worked("a session writes there", res), found("git obeys what it did", text(".git/config") == config, "%s", text(".git/config")))
			for _, name := range []string{".envrc", ".vscode/settings.json"} {
				out = append(out, found("unchanged: "+name, text(name) == "mine\n", "%q", text(name)))
			}
			_, hook := os.Lstat(lib + "/.git/hooks/post-checkout")
			out = append(out, found("no hook", hook != nil, "it is there"), found("control: what is no setting is written", text("staged") == "staged\n", "%s", text("staged")),
				found("a nested repository's settings", !strings.Contains(text("nested/.git/config"), "evil"), "%s", text("nested/.git/config")))
			for _, name := range []string{lib + "/deep/.envrc", lib + "/.npmrc"} {
				out = append(out, found("listed: "+name, strings.Contains(res.Stderr, name+"\n"), "%s", res.Stderr))
			}
			reverted := r.host(strings.Join(r.variables(), " ") + " " + r.w.Cloister + " review --revert .")
			_, gone := os.Lstat(lib + "/.npmrc")
			out = append(out, worked("all is reverted", reverted), found("what lay there is put back", text("deep/.envrc") == "mine\n", "%q", text("deep/.envrc")),
				found("what is new is removed", gone != nil, "it is there"))
			// A linked working tree: its repository is the person's, who changes it meanwhile.
			tree := r.base + "/tree"
			r.host("git worktree add -q " + tree + " -b side")
			live := r.cloister("run", "-d", "--name", "beside", "-C", tree, "--", "sh", "-c", "until [ -e over ]; do sleep 0.1; done")
			own := r.host("git config user.signingkey own; touch " + tree + "/over")
			ended := r.w.Until(patient, func() bool {
				return strings.Contains(r.host(strings.Join(r.variables(), " ")+" "+r.w.Cloister+" review --json "+tree).Stdout, ".git/config")
			})
			refused := r.host("cd " + tree + "; " + strings.Join(r.variables(), " ") + " " + r.w.Cloister + " review --revert .")
			return append(out, worked("a session in a linked working tree", live), worked("the person changes a setting", own), found("it waits", ended, "it does not"),
				found("a revert says that it knows nothing of it", refused.Status != 0 && strings.Contains(refused.Stderr, "no copy"), "%d %s", refused.Status, refused.Stderr),
				found("and takes nothing away", strings.Contains(r.text(".git/config"), "own"), "%s", r.text(".git/config")))
		}),
	}
}
