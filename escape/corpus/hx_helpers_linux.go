package corpus

import (
	"os"
	"path/filepath"

	"cloister/escape"
)

// ruled is a guardian of its own with rules for host commands.
type ruled struct {
	w       *escape.World
	base    string
	project string
}

// rules starts nothing yet: the first run does.
func rules(w *escape.World, text string) (*ruled, error) {
	r := &ruled{w: w, base: w.Base + "/hx"}
	r.project = r.base + "/project"
	for _, dir := range []string{r.base, r.project, r.base + "/run", r.base + "/state", r.base + "/data"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	return r, w.Write(r.base+"/config/cloister/config.yaml", "version: 1\nproxy: {presets: []}\nhostexec:\n"+text)
}

func (r *ruled) cloister(words ...string) escape.Result {
	argv := []string{
		"env", "XDG_CONFIG_HOME=" + r.base + "/config", "XDG_STATE_HOME=" + r.base + "/state", "XDG_DATA_HOME=" + r.base + "/data",
		"XDG_RUNTIME_DIR=" + r.base + "/run", r.w.Cloister,
	}
	res, err := r.w.Exec(argv[0], append(argv[1:], words...)...)
	if err != nil {
		res.Stderr += err.Error()
		res.Status = -1
	}
	return res
}

// run runs a command in a cloister of the project.
func (r *ruled) run(argv ...string) escape.Result {
	return r.cloister(append([]string{"run", "-C", r.project, "--"}, argv...)...)
}

// host runs a command in the project outside: what a control does.
func (r *ruled) host(script string) escape.Result {
	res, err := r.w.Exec("sh", "-c", "cd "+r.project+" && "+script)
	if err != nil {
		res.Stderr += err.Error()
		res.Status = -1
	}
	return res
}

func (r *ruled) has(name string) bool { return exists(filepath.Join(r.project, name)) }

func (r *ruled) close() {
	r.cloister("guardian", "stop")
	clean(r.base)
}

// hosted is the Host of a case that needs rules.
func hosted(text string, look func(r *ruled) []escape.Finding) func(w *escape.World) []escape.Finding {
	return func(w *escape.World) []escape.Finding {
		r, err := rules(w, text)
		if err != nil {
			return noHost("make a world with rules", err)
		}
		defer r.close()
		return look(r)
	}
}
