package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"cloister/script/check/reaper"
)

// ownCloister are attacks that need a container each: what an engine and its limits
// stand for. The others share one.
const ownCloister = `^(BK-14|PR-(19|20|25|29)|SE-(01|02|15))$`

// ofUsersOnEngines are the driver's tests that an ordinary user runs too. The others are
// between the driver and an engine that answers wrong, late or not at all: who calls is
// nothing to them, and root runs all.
const ofUsersOnEngines = "^TestEngine(Driver|Container|ClosedFolders|Terminal|NoImage|Sweep)$"

// docker proves containers: everything on a Docker of its own, what differs on a Podman.
func (r *runner) docker() {
	if !r.root {
		r.say("note  docker: an engine of our own needs root\n")
		return
	}
	if !r.testPrograms() || !r.machine.installQuietly("dockerd", "docker.io") ||
		!r.product() || !r.machine.ordinary() || !r.corpus() {
		return
	}
	before := reaper.Packets(r.ctx)
	e := r.engine()
	if e == nil || !r.baseImage() {
		return
	}
	var p *engine
	if r.machine.installQuietly("podman", "podman") {
		p = r.podman()
	}
	const within = 20 * time.Minute
	contained := func(as string, flags ...string) {
		r.madeIn(r.onEngineOf(e), "attempts, docker, as "+as, as, within, flags...)
	}
	together(func() {
		contained("root", "-short")
		contained("root", "-run", ownCloister)
	}, func() {
		contained("user", "-short")
		contained("user", "-run", ownCloister)
	})
	together(func() {
		r.onEngine(e, "sandbox/docker", "root", "^TestEngine")
	}, func() {
		r.onEngine(e, "sandbox/docker", "user", ofUsersOnEngines)
		r.onPodman(p)
	}, func() {
		r.onEngine(e, "cmd/cloister", "root", "^TestEngine")
		r.onEngine(e, "cmd/cloister/realtest", "root", "^TestEngine")
		r.onEngine(e, "cmd/cloister/realtest", "user", "^TestEngine")
	})
	r.again()
	e.stop()
	if p != nil {
		p.stop()
	}
	r.check("packet rules as before", func(io.Writer) error {
		if after := reaper.Packets(r.ctx); after != before {
			return fmt.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
		return nil
	})
}

func (r *runner) onPodman(e *engine) {
	if e == nil {
		return
	}
	r.onEngine(e, "sandbox/docker", "root", "^TestEngine(Layers|NoImage|Terminal|ClosedFolders|Left)$")
	r.onEngine(e, "sandbox/docker", "user", "^TestEngineDriver$/^(status|protected_paths|no_way_out|gate|privileges|exec|linked_worktree|a_port_inside|hidden_files)$")
}

// onEngine runs tests that need an engine.
func (r *runner) onEngine(e *engine, pkg, as, pattern string) {
	c := cmd{dir: pkg, user: as == "user"}
	c.env = []string{"CLOISTER_TEST_NEEDS=" + claimed + " docker", "CLOISTER_TEST_ENGINE=" + e.socket(), "CLOISTER_TEST_IMAGES=" + r.images(as)}
	if c.user {
		c.dir = r.machine.home()
	} else if pkg != "cmd/cloister" {
		c.env = append(c.env, "CLOISTER_TEST_BINARY="+filepath.Join(r.bin, "cloister"))
	}
	r.counted(pkg+" on "+e.kind, pkg, r.testProgram(pkg), c, "-test.run="+pattern, parallel, "-test.timeout=20m")
}

func (r *runner) images(as string) string { return filepath.Join(r.work, "images", as) }

// baseImage makes an image of this machine's packages, for root and the user.
func (r *runner) baseImage() bool {
	return r.product() && r.once("make an image", func(out io.Writer) error {
		dir := filepath.Join(r.work, "images")
		if err := os.MkdirAll(filepath.Join(dir, "run"), 0o700); err != nil {
			return err
		}
		err := r.run(out, cmd{
			words: []string{filepath.Join(r.bin, "cloister"), "image", "build", "--from-host", "--agent", "claude"},
			env: []string{
				"XDG_CONFIG_HOME=" + dir + "/c", "XDG_STATE_HOME=" + dir + "/s", "XDG_DATA_HOME=" + dir + "/d", "XDG_RUNTIME_DIR=" + dir + "/run",
				"PATH=" + os.Getenv("CLOISTER_AGENTS_PREFIX") + "/bin:" + os.Getenv("PATH"),
			},
		})
		if err != nil {
			return err
		}
		script := `cd "$1" && chmod 755 . && mv d/cloister/images root && cp -a root user && chown -R "$2:" user`
		return r.run(out, cmd{words: []string{"sh", "-c", script, "sh", dir, r.machine.name}})
	})
}
