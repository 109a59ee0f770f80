package main

import (
	"errors"
	"io"
	"path/filepath"
)

// gvisor proves the level of that name: its program is built, and the driver is held to
// what a driver is.
func (r *runner) gvisor() {
	if !r.testPrograms() || r.root && !r.machine.tree() {
		return
	}
	kernel := filepath.Join(r.bin, "gvisor")
	if !r.check("build cloister-gvisor", func(out io.Writer) error {
		build := func(name, of string) error {
			return r.run(out, cmd{dir: "sandbox/gvisor/kernel", env: []string{"CGO_ENABLED=0"},
				words: []string{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(kernel, name), of}})
		}
		return errors.Join(build("cloister-gvisor", "."), build("cloister-gvisor-first", "./first"))
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
}
