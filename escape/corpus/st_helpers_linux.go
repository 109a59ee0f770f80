package corpus

import (
	"os"
	"path/filepath"
	"strings"

	"cloister/escape"
)

// overlaid runs a script in an overlay cloister of that name.
func (r *ruled) overlaid(name, script string) escape.Result {
	return r.cloister("run", "--workspace", "overlay", "--name", name, "-C", r.project, "--", "sh", "-c", script)
}

// layers are the folders in which a store keeps what overlays write.
func (r *ruled) layers() []string {
	found, err := filepath.Glob(r.base + "/data/cloister/state/fs*/*/up")
	if err != nil {
		panic(err) // the pattern is one line above
	}
	return found
}

// entries are the paths below a folder, one on each line, without its own repository.
func entries(top string) string {
	var out []string
	err := filepath.WalkDir(top, func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil || name == top:
		case name == top+"/.git":
			return filepath.SkipDir
		default:
			out = append(out, strings.TrimPrefix(name, top+"/")+" "+d.Type().String())
		}
		return err
	})
	if err != nil {
		return err.Error()
	}
	return strings.Join(out, "\n")
}
