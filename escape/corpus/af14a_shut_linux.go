package corpus

import (
	"os"
	"path/filepath"

	"cloister/escape"
)

func af14a() escape.Case {
	return escape.Case{
		ID: "AF-14a", Class: "the end hindered by shut folders",
		Attack: "shut the folders of a repository below, so that the end of the session cannot take away what was held there, and fails",
		Source: "TestGenerated, 757 sessions as a user", Layers: []string{"held names"},
		Host: between("", func(r *ruled) []escape.Finding {
			laid := r.host(newRepository + "; mkdir deep; git init -q deep/sub")
			guard := filepath.Join(r.project, "deep/sub/.git/commondir")
			held := r.run("sh", "-c", "test -e deep/sub/.git/commondir && chmod 0 deep/sub/.git deep/sub deep; exit 7")
			fi, err := os.Lstat(filepath.Join(r.project, "deep"))
			out := []escape.Finding{
				worked("the project is laid", laid),
				found("the session ends as its command did", held.Status == 7, "%d %s", held.Status, held.Stderr),
				found("control: the folder is shut", err == nil && fi.Mode().Perm() == 0, "%v %v", fi, err),
			}
			r.host("chmod 700 deep; chmod 700 deep/sub; chmod 700 deep/sub/.git")
			again := r.run("true")
			return append(out, found("nothing of it is left", !exists(guard), "%s is there", guard), worked("the next session", again))
		}),
	}
}
