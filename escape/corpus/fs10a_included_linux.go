package corpus

import (
	"os"

	"cloister/escape"
)

// led is what a person's configuration of the repository leads to in the project.
func led() map[string]string {
	return map[string]string{
		".githooks/pre-commit": "#!/bin/sh\n", "shared.gitconfig": "[core]\n\tabbrev = 8\n[include]\n\tpath = deeper/more.gitconfig\n", "deeper/more.gitconfig": "[core]\n\tquotePath = false\n",
		"tools/watch.sh": "#!/bin/sh\nexit 1\n", "tools/smudge": "#!/bin/sh\ncat\n", "tools/alias.sh": "#!/bin/sh\n",
	}
}

func fs10a() escape.Case {
	settings := [][]string{{"core.hooksPath", ".githooks"}, {"include.path", "../shared.gitconfig"}, {"core.fsmonitor", "tools/watch.sh"}, {"filter.x.smudge", "tools/smudge %f"}, {"alias.x", "!tools/alias.sh"}}
	return escape.Case{
		ID: "FS-10a", Class: "what git's configuration leads to", Attack: "where the person's configuration names hooks, files to include and programs of the project: write, replace and move those",
		Source: "HARDENING 5.1 (effective core.hooksPath); dirge #774", Layers: []string{"protect"},
		Prepare: func(w *escape.World) error {
			for name, text := range led() {
				if err := w.Write(name, text); err != nil {
					return err
				}
				if err := os.Chmod(w.Project+"/"+name, 0o755); err != nil {
					return err
				}
			}
			for _, s := range settings {
				if _, err := w.Exec("git", "config", s[0], s[1]); err != nil {
					return err
				}
			}
			return nil
		},
		Tries: func(in escape.Inside) []escape.Try {
			var out []escape.Try
			for name := range led() {
				path := in.Project + "/" + name
				out = append(out, held("write "+name, func() error { return below(path, "FS-10a") }),
					held("replace "+name, func() error {
						if in.Control {
							_ = below(path, "FS-10a")
						}
						mine := in.Project + "/mine10a"
						if err := create(mine, "FS-10a"); err != nil {
							return err
						}
						defer os.Remove(mine)
						return os.Rename(mine, path)
					}))
			}
			for _, dir := range []string{".githooks", "tools", "deeper"} {
				out = append(out, held("move "+dir+" away", func() error { return away(in.Project + "/" + dir) }))
			}
			return out
		},
		Host: func(w *escape.World) []escape.Finding {
			mark := w.Base + "/fs10a"
			script := w.Project + "/tools/watch.sh"
			text, err := os.ReadFile(script)
			out := []escape.Finding{found("the program is the person's", err == nil && string(text) == led()["tools/watch.sh"], "%v %q", err, text)}
			if err := w.Write(script, "#!/bin/sh\ntouch "+mark+"\n"); err != nil {
				return escape.NoHost("plant the control", err)
			}
			res, err := w.Exec("git", "status")
			out = append(out, found("control: git of the host runs what is there", exists(mark), "%v %s", err, res.Stderr))
			for _, s := range settings {
				_, _ = w.Exec("git", "config", "--unset", s[0]) // the folder is looked at by others after this
			}
			clean(mark, w.Project+"/.githooks", w.Project+"/tools", w.Project+"/deeper", w.Project+"/shared.gitconfig")
			return out
		},
	}
}
