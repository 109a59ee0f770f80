package corpus

import (
	"cloister/escape"
	"strings"
)

func sc01() escape.Case {
	return escape.Case{
		ID: "SC-01", Class: "commands of a devcontainer", Attack: "a repository with initializeCommand and every other hook of a devcontainer, tasks that run on opening, husky, lefthook, mise: no command of cloister runs one on the host",
		Source: "devcontainers/cli #290; vscode #150239", Layers: []string{"launcher"},
		Host: hosted("  auto_approve:\n    - pattern: \"^pwd$\"\n", func(r *ruled) []escape.Finding {
			mark := r.base + "/sc01"
			run := "touch " + mark
			files := map[string]string{
				".devcontainer/devcontainer.json":       `{"initializeCommand":"` + run + `","onCreateCommand":"` + run + `","postCreateCommand":"` + run + `","postStartCommand":"` + run + `","image":"x","runArgs":["--privileged"]}`,
				".devcontainer.json":                    `{"initializeCommand":["sh","-c","` + run + `"]}`,
				".devcontainer/other/devcontainer.json": `{"initializeCommand":{"a":"` + run + `"}}`,
				".vscode/tasks.json":                    `{"version":"2.0.0","tasks":[{"label":"x","type":"shell","command":"` + run + `","runOptions":{"runOn":"folderOpen"}}]}`,
				".husky/pre-commit":                     run + "\n", "lefthook.yml": "pre-commit: {commands: {x: {run: " + run + "}}}\n", ".mise.toml": "[hooks]\nenter = \"" + run + "\"\n", ".envrc": run + "\n", ".tool-versions": "x 1\n", ".gitmodules": "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c " + run + "\n",
			}
			for name, text := range files {
				if err := r.w.Write(r.project+"/"+name, text); err != nil {
					return escape.NoHost("write "+name, err)
				}
			}
			r.host("git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm x")
			var out []escape.Finding
			for _, words := range [][]string{{"run", "-C", r.project, "--", "cat", ".devcontainer/devcontainer.json"}, {"run", "-C", r.project, "-b", "sc01", "--", "true"}, {"start", "-d", "-C", r.project, "--name", "sc01", "--", "sleep", "30"}, {"project", "show", r.project}, {"worktree", "list", "-C", r.project}, {"list"}, {"stop", "--all"}} {
				res := r.cloister(words...)
				out = append(out, found(strings.Join(words, " "), !exists(mark), "%d %s", res.Status, res.Stderr))
				if words[0] == "run" {
					out = append(out, found("it starts", res.Status == 0, "%d %s", res.Status, res.Stderr))
				}
			}
			r.host(run)
			return append(out, found("control: its command would leave a mark", exists(mark), "nothing is there"))
		}),
	}
}
