package main

import (
	"io"
	"os"
	"path/filepath"
)

// gvisor proves the level of that name: its program is built as a person builds it, which
// compares its filters of system calls with gVisor's, the driver is held to what a driver is,
// and the stories are told on the level.
func (r *runner) gvisor() {
	if !r.testPrograms() || r.root && !r.machine.tree() {
		return
	}
	data := filepath.Join(r.bin, "gvisor")
	kernel := filepath.Join(data, "cloister", "gvisor")
	if !r.check("build cloister-gvisor", func(out io.Writer) error {
		if err := r.run(out, cmd{env: []string{"XDG_DATA_HOME=" + data, "CGO_ENABLED=0"},
			words: []string{"go", "run", "./cmd/cloister", "setup", "gvisor"}}); err != nil {
			return err
		}
		return os.Chmod(filepath.Dir(kernel), 0o755) // the ordinary user runs it too
	}) {
		return
	}
	for _, user := range []bool{false, true} {
		if user && !r.root {
			continue
		}
		const pkg = "sandbox/gvisor"
		c, name := cmd{dir: pkg, user: user, env: []string{"CLOISTER_GVISOR=" + kernel}}, pkg+" on gVisor"
		if user {
			c.dir, name = filepath.Join(r.machine.home(), "tree", pkg), name+" as a user"
		}
		r.counted(name, pkg, r.testProgram(pkg), c, "-test.timeout=20m")
	}
	const stories = "cmd/cloister"
	r.counted(stories+" on gVisor", stories, r.testProgram(stories), cmd{dir: stories, env: []string{"CLOISTER_GVISOR=" + kernel}},
		"-test.run=^TestGVisor(Stories|Memory)$", parallel, "-test.timeout=40m")
}
