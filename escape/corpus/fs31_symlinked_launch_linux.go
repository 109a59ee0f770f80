package corpus

import (
	"os"
	"strings"

	"cloister/escape"
)

func fs31() escape.Case {
	return escape.Case{
		ID: "FS-31", Class: "symlinked launch dir", Attack: "start from a symbolic link to the project and from below a linked parent: the real folder is shown and nothing more",
		Source: "claude-code 2.1.210 (late symlink)", Layers: []string{"launcher", "view"},
		Host: func(w *escape.World) []escape.Finding {
			link, parent := w.Outside+"/link", w.Outside+"/src"
			defer clean(link, parent)
			if err := os.Symlink(w.Project, link); err != nil {
				return escape.NoHost("make a link", err)
			}
			if err := os.Symlink(w.Home+"/src", parent); err != nil {
				return escape.NoHost("make a link", err)
			}
			var out []escape.Finding
			for name, dir := range map[string]string{"a link to the project": link, "below a linked parent": parent + "/project"} {
				w.Dir = dir
				res := w.Outcome(nil, "sh", "-c", "pwd -P; cat main.go; cat "+w.Outside+"/canary "+w.Home+"/src/other/.git/config; ls "+w.Outside)
				w.Dir = w.Project
				out = append(out,
					found("starts from "+name, strings.HasPrefix(res.Stdout, w.Project+"\npackage main\n"), "status %d: %s%s", res.Status, res.Stdout, res.Stderr),
					found("shows nothing more from "+name, len(unwanted(res.Stdout, "canary", "[core]")) == 0, "%s", res.Stdout))
			}
			return out
		},
	}
}
