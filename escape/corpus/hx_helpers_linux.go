package corpus

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"cloister/escape"
)

// ruled is a guardian of its own with a configuration of its own.
type ruled struct {
	w       *escape.World
	base    string
	project string

	guardian *exec.Cmd // where layers are left out
	sharing            // of one cloister by several commands
}

// instance starts nothing yet: the first run does.
func instance(w *escape.World, text string) (*ruled, error) {
	// Another folder each time: a shim of the case before may still end, and would
	// take away what it finds at the paths that were its own.
	base, err := os.MkdirTemp(w.Base, "hx")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(base, 0o755); err != nil {
		return nil, err
	}
	r := &ruled{w: w, base: base}
	r.project = r.base + "/project"
	for dir, mode := range map[string]os.FileMode{r.project: 0o755, r.base + "/run": 0o700, r.base + "/state": 0o700, r.base + "/data": 0o700} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, mode)); err != nil {
			return nil, err
		}
	}
	if err := w.Kind.Furnish(r.base + "/data"); err != nil {
		return nil, err
	}
	if err := r.write(text); err != nil || len(w.Extra) == 0 {
		return r, err
	}
	return r, r.serve()
}

// serve starts the guardian with the world's own environment: one that a command
// starts has a clean one, and would know of no layer to leave out.
func (r *ruled) serve() error {
	c := exec.Command(r.w.Cloister, "guardian", "daemon")
	c.Env, c.Dir = append([]string{"HOME=" + r.w.Home, "PATH=/usr/local/bin:/usr/bin:/bin"}, r.variables()...), "/"
	for name, value := range r.w.Extra {
		c.Env = append(c.Env, name+"="+value)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	r.guardian = c
	if !r.w.Until(patient, func() bool { return r.cloister("guardian", "status").Status == 0 }) {
		return errors.New("the guardian does not answer")
	}
	return nil
}

// write makes the configuration, of the kind of enclosure that is attacked.
func (r *ruled) write(text string) error {
	r.apart() // what runs already is of the rules before
	return r.w.Write(r.base+"/config/cloister/config.yaml", r.w.Kind.Head()+strings.TrimPrefix(text, "version: 1\n"))
}

// settings are written anew: the folder is the world's own.
func (r *ruled) settings(text string) {
	if err := r.write(text); err != nil {
		panic(err)
	}
}

// variables choose this guardian.
func (r *ruled) variables() []string {
	return []string{"XDG_CONFIG_HOME=" + r.base + "/config", "XDG_STATE_HOME=" + r.base + "/state", "XDG_DATA_HOME=" + r.base + "/data", "XDG_RUNTIME_DIR=" + r.base + "/run"}
}

func (r *ruled) cloister(words ...string) escape.Result {
	if name, argv := r.shares(words); name != "" {
		words = append([]string{"exec", name, "--"}, argv...)
	}
	argv := append(r.variables(), r.w.Cloister)
	res, err := r.w.Exec("env", append(argv, words...)...)
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
	r.cloister("stop", "--all", "-t", "1s")
	r.waiting.Wait()
	r.cloister("guardian", "stop")
	if r.guardian != nil {
		_ = r.guardian.Wait() // it was told to end
	}
	clean(r.base)
}

// hosted is the Host of a case that needs rules.
func hosted(text string, look func(r *ruled) []escape.Finding) func(w *escape.World) []escape.Finding {
	return with(func(*escape.World) string { return "version: 1\nproxy: {presets: []}\nhostexec:\n" + text }, look)
}

// with is the Host of a case that needs a guardian of its own.
func with(config func(w *escape.World) string, look func(r *ruled) []escape.Finding) func(w *escape.World) []escape.Finding {
	return func(w *escape.World) []escape.Finding {
		r, err := instance(w, config(w))
		if err != nil {
			return escape.NoHost("make a guardian of its own", err)
		}
		defer r.close()
		return look(r)
	}
}
