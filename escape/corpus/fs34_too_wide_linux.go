package corpus

import (
	"fmt"

	"cloister/escape"
)

func fs34() escape.Case {
	return escape.Case{
		ID: "FS-34", Class: "too-wide workspace", Attack: "start in /, in the home, in /var, above cloister's own state or a docker socket, and show the same by --expose",
		Source: "openclaw #91741 (mount /var exposes docker.sock)", Layers: []string{"launcher"},
		Host: func(w *escape.World) []escape.Finding {
			var out []escape.Finding
			refused := func(name string, flags ...string) {
				res := w.Outcome(flags, "true")
				out = append(out, found(name, res.Status == 125 || res.Status == 2, "status %d: %s", res.Status, res.Stderr))
			}
			for _, dir := range []string{"/", w.Home, "/var", "/run", "/proc", "/etc", "/usr", w.Base, w.Base + "/state", w.Base + "/config/cloister", w.Base + "/run"} {
				refused("starts not in "+shorten(w, dir), "-C", dir)
			}
			for _, dir := range []string{"/", w.Base, w.Base + "/state", w.Base + "/config", w.Socket} {
				refused("exposes not "+shorten(w, dir), "--expose", dir)
				refused("shows not as a ref "+shorten(w, dir), "--ref", dir)
			}
			res := w.Outcome([]string{"-C", w.Project, "--expose", w.Outside}, "true")
			return append(out, found("control: a project starts, a folder is shown", res.Status == 0, "status %d: %s", res.Status, res.Stderr))
		},
	}
}

// shorten names a path of the world without the world.
func shorten(w *escape.World, path string) string {
	if len(path) > len(w.Base) && path[:len(w.Base)] == w.Base {
		return fmt.Sprintf("world:%s", path[len(w.Base):])
	}
	if path == w.Base {
		return "world"
	}
	return path
}
