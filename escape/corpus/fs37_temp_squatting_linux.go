package corpus

import (
	"os"
	"strings"

	"cloister/escape"
)

func fs37() escape.Case {
	return escape.Case{
		ID: "FS-37", Class: "temp dir squatting", Attack: "put a link, a file or a folder open to others where the guardian's private folder is expected",
		Source: "Flatpak GHSA-8688-9x26-hhxj and every predictable /tmp path", Layers: []string{"private folder"},
		Host: func(w *escape.World) []escape.Finding {
			run, state := w.Env["XDG_RUNTIME_DIR"], w.Env["XDG_STATE_HOME"]
			defer func() { w.Env["XDG_RUNTIME_DIR"], w.Env["XDG_STATE_HOME"] = run, state }()
			bad := w.Base + "/squat"
			defer clean(bad, w.Base+"/theirs")
			if err := os.MkdirAll(w.Base+"/theirs", 0o777); err != nil {
				return escape.NoHost("make a folder", err)
			}
			if err := os.MkdirAll(bad, 0o700); err != nil {
				return escape.NoHost("make a folder", err)
			}
			w.Env["XDG_RUNTIME_DIR"], w.Env["XDG_STATE_HOME"] = bad, bad+"/state" // an instance of its own
			var out []escape.Finding
			for name, plant := range map[string]func() error{
				"a link":                func() error { return os.Symlink(w.Base+"/theirs", bad+"/cloister") },
				"a file":                func() error { return os.WriteFile(bad+"/cloister", nil, 0o644) },
				"a link to nowhere":     func() error { return os.Symlink(w.Base+"/absent", bad+"/cloister") },
				"a folder of another's": func() error { return foreign(w, bad+"/cloister") },
			} {
				if err := plant(); err != nil {
					out = append(out, found("plant "+name, false, "%v", err))
					continue
				}
				res := w.Outcome(nil, "true")
				put, err := os.ReadDir(w.Base + "/theirs")
				out = append(out, found("refused: "+name, res.Status == 125 && err == nil && len(put) == 0, "status %d: %s %v", res.Status, res.Stderr, put))
				clean(bad + "/cloister")
			}
			if err := os.Mkdir(bad+"/cloister", 0o777); err != nil {
				return escape.NoHost("make a folder", err)
			}
			res := w.Outcome(nil, "true")
			fi, err := os.Stat(bad + "/cloister")
			out = append(out, found("control: one's own folder is closed and used", res.Status == 0 && err == nil && fi.Mode().Perm() == 0o700, "status %d: %s", res.Status, res.Stderr))
			stop, err := w.Exec(w.Cloister, "guardian", "stop")
			return append(out, found("its guardian ends", err == nil && stop.Status == 0, "%s", strings.TrimSpace(stop.Stderr)))
		},
	}
}

// foreign makes a folder that belongs to somebody else; an ordinary user finds
// one that does.
func foreign(w *escape.World, path string) error {
	if !w.ByRoot {
		return os.Symlink("/usr", path)
	}
	if err := os.Mkdir(path, 0o777); err != nil {
		return err
	}
	return os.Chown(path, 65534, 65534)
}
