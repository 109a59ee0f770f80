package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// stories runs the stories of the command line on the levels of KINDS: user, gvisor and docker unless it says
// otherwise, and microvm by name. What a level leaves out says docs/stories.md. With them goes a machine without memory.
func (r *runner) stories() {
	packages, ok := r.packages()
	if !ok || !r.rootOnly("stories by level") || !r.drivingPrograms(packages) || !r.product() || !r.machine.tree() {
		return
	}
	levels := map[string]func(){"user": r.storiesOnUser, "gvisor": r.storiesOnGVisor, "docker": r.storiesOnDocker,
		"microvm": r.storiesOnMachines}
	names := strings.Fields(os.Getenv("KINDS"))
	if len(names) == 0 {
		names = []string{"user", "gvisor", "docker"}
	}
	for _, name := range names {
		if run := levels[name]; run != nil {
			run()
		} else {
			r.check("stories on "+name, func(io.Writer) error { return errors.New("there is no such level in script/check/stories.go") })
		}
	}
}

// onLevel runs tests of the command line, or those of load, on a level.
func (r *runner) onLevel(level, pkg string, c cmd, flags ...string) {
	c.dir = pkg
	if c.user {
		c.dir = filepath.Join(r.machine.home(), "tree", pkg)
	}
	c.env = append(c.env, "CLOISTER_TEST_BINARY="+filepath.Join(r.bin, "cloister"))
	r.counted(pkg+" on "+level, pkg, r.testProgram(pkg), c, append(flags, "-test.timeout=40m")...)
}

const (
	ofStories = "cmd/cloister"
	ofLoad    = "cmd/cloister/loadtest"
	noMemory  = "-test.run=^TestOutOfMemory$/^"
)

func (r *runner) storiesOnUser() {
	beside := func(program string) []string {
		return []string{"script/with-local-user", filepath.Join(r.bin, program), r.machine.name}
	}
	// The stories' cloister is the test program, which no commit is written into: nor may one be into root's helper.
	if r.command("build root's helper", "go", "build", "-buildvcs=false", "-o", filepath.Join(r.bin, "helper"), "./cmd/cloister") {
		r.onLevel("user", ofStories, cmd{user: true, words: beside("helper"), env: []string{"CLOISTER_LOCAL_STORIES=1"}},
			"-test.run=^TestUserLevelStories$", parallel)
	}
	r.onLevel("user", ofLoad, cmd{words: beside("cloister"), env: []string{"CLOISTER_LOCAL_USER=" + r.machine.name}}, noMemory+"user$")
	r.check("tools on user", func(out io.Writer) error {
		return r.run(out, cmd{words: strings.Fields("go test -count=1 -run=^TestTools$ ./sandbox/localuser"),
			env: []string{"CLOISTER_TEST_LONG=1"}})
	})
}

// storiesOnGVisor are an ordinary user's: the part gvisor runs root's.
func (r *runner) storiesOnGVisor() {
	kernel, ok := r.kernel()
	if !ok {
		return
	}
	env := []string{"CLOISTER_GVISOR=" + kernel}
	r.onLevel("gVisor", ofStories, cmd{user: true, env: env}, "-test.run=^TestGVisor(Stories|Memory)$", parallel)
	r.onLevel("gVisor", ofLoad, cmd{env: env}, noMemory+"gvisor$")
}

func (r *runner) storiesOnDocker() {
	if !r.machine.installQuietly("dockerd", "docker.io") {
		return
	}
	e := r.engine()
	if e == nil {
		return
	}
	defer e.stop()
	if !r.baseImage() {
		return
	}
	env := []string{"CLOISTER_TEST_NEEDS=" + claimed + " docker", "CLOISTER_TEST_ENGINE=" + e.socket(),
		"CLOISTER_TEST_IMAGES=" + r.images("root"), "CLOISTER_TEST_LONG=1"}
	r.onLevel("docker", ofStories, cmd{env: env}, "-test.run=^TestEngineStories$", parallel)
	r.onLevel("docker", ofLoad, cmd{env: env}, noMemory+"docker$")
}

// storiesOnMachines are emulated, one beside another.
func (r *runner) storiesOnMachines() {
	data := filepath.Join(r.work, "machines")
	if !r.command("a kernel for guests", "script/microvm-kernel", filepath.Join(r.bin, "cloister"), r.work, data) {
		return
	}
	r.onLevel("microvm", ofStories, cmd{env: []string{"CLOISTER_MICROVM=" + filepath.Join(data, "cloister", "microvm"),
		"TMPDIR=/var/tmp"}}, "-test.run=^TestMachineStories$", "-test.parallel=2")
}
