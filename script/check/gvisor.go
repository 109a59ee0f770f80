package main

import "path/filepath"

// gvisor proves the level of that name: its program is built as a person builds it, which
// compares its filters of system calls with gVisor's, the driver is held to what a driver is,
// and the stories are told on the level.
func (r *runner) gvisor() {
	if !r.testPrograms() || r.root && !r.machine.tree() {
		return
	}
	kernel, ok := r.kernel()
	if !ok {
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
