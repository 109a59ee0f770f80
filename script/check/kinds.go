package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/script/check/rows"
)

// A kind is how attempts are made in one kind of cloister.
type kind struct {
	flags  []string                 // of cloister-escape
	own    func(as string) []string // more of them, by who starts it; nil: none
	env    []string
	before func(program string) []string // words before the command, which root starts then, by a build's name
	off    string                        // cases for whom those must be of the build that leaves layers out
	as     string                        // who starts it; empty: root and the user
	end    func()                        // ends what was started for it; nil: nothing was
}

// kinds make what the cloisters of each column need (escape/enclosure_linux.go).
var kinds = map[string]func(*runner) (kind, bool){
	"native": func(*runner) (kind, bool) { return kind{flags: []string{"-isolation", "native"}}, true },
	"image": func(r *runner) (kind, bool) {
		return r.imaged(kind{flags: []string{"-isolation", "native"}}), r.baseImage()
	},
	"docker": (*runner).inContainers,
	"microvm": func(r *runner) (kind, bool) {
		of := func(as string) []string {
			return []string{"-machine", r.worlds() + "/machine-" + as + "/cloister/microvm"}
		}
		return kind{flags: []string{"-isolation", "microvm", "-v"}, own: of},
			r.command("a kernel for guests", "script/microvm-kernel", r.esc(""), r.work, r.worlds()+"/machine-", r.machine.name)
	},
	"gvisor": func(r *runner) (kind, bool) {
		return kind{flags: []string{"-isolation", "gvisor"}}, r.kernelBeside()
	},
	"user": func(r *runner) (kind, bool) {
		return kind{
			flags: []string{"-isolation", "user"}, as: "user",
			before: func(of string) []string { return []string{"script/with-local-user", r.esc(of), r.machine.name} },
			off:    "^BK-1[24]$", // they leave layers out themselves
		}, true
	},
}

// eachKind does something in each of KINDS, or of the kinds given, for all who start them.
func (r *runner) eachKind(usual []string, do func(k kind, name, as string)) {
	names := strings.Fields(os.Getenv("KINDS"))
	if len(names) == 0 {
		names = usual
	}
	for _, name := range names {
		ready, known := kinds[name]
		if !known {
			r.check("cloisters of the kind "+name, func(io.Writer) error { return errors.New("there is none in script/check/kinds.go") })
			continue
		}
		k, ok := ready(r) // a check where it is not
		var lanes []func()
		for _, as := range []string{"user", "root"} {
			if ok && (k.as == "" || k.as == as) {
				lanes = append(lanes, func() { do(k, name, as) })
			}
		}
		together(lanes...)
		if k.end != nil {
			k.end()
		}
	}
}

// madeIn is a check that makes attempts in a kind of cloister.
func (r *runner) madeIn(k kind, name, as string, within time.Duration, flags ...string) {
	words := []string{r.esc("cloister-escape"), "-dir", r.worlds(), "-cloister", r.esc("cloister"), "-off", r.esc("off")}
	words = append(append(words, k.flags...), flags...)
	if k.own != nil {
		words = append(words, k.own(as)...)
	}
	c := cmd{words: words, user: r.root && as == "user", env: k.env, within: within}
	if k.before != nil {
		build := "cloister"
		if slices.Contains(flags, "-layers") || slices.Contains(flags, k.off) && !slices.Contains(flags, "-skip") {
			build = "off"
		}
		c.words = slices.Concat(k.before(build), r.machine.asUser(k.env), words)
		c.user = false
	}
	r.check(name, func(out io.Writer) error {
		failing := &rows.Failing{Out: out}
		err := r.run(failing, c)
		return errors.Join(err, failing.Flush())
	})
}

// imaged are cloisters on an image of this machine's packages.
func (r *runner) imaged(k kind) kind {
	k.flags = append(k.flags, "-image", "cloister-base")
	k.own = func(as string) []string { return []string{"-images", r.images(as)} }
	return k
}

// inContainers starts an engine for containers.
func (r *runner) inContainers() (kind, bool) {
	if r.machine.installQuietly("dockerd", "docker.io") {
		if e := r.engine(); e != nil {
			k := r.onEngineOf(e)
			k.end = e.stop
			return k, r.baseImage()
		}
	}
	return kind{}, false
}

// onEngineOf are containers of an engine that runs.
func (r *runner) onEngineOf(e *engine) kind {
	return r.imaged(kind{flags: []string{"-isolation", "docker"}, env: []string{"DOCKER_HOST=unix://" + e.socket()}})
}

// kernelBeside puts gVisor's program beside the cloisters that attempts are made with.
func (r *runner) kernelBeside() bool {
	kernel, ok := r.kernel()
	return ok && r.once("gVisor's program beside", func(io.Writer) error {
		return os.CopyFS(r.esc(""), os.DirFS(kernel))
	})
}

// kernel builds gVisor's program as a person builds it, and gives its folder.
func (r *runner) kernel() (string, bool) {
	data := filepath.Join(r.bin, "gvisor")
	kernel := filepath.Join(data, "cloister", "gvisor")
	return kernel, r.once("build cloister-gvisor", func(out io.Writer) error {
		if err := r.run(out, cmd{env: []string{"XDG_DATA_HOME=" + data, "CGO_ENABLED=0"},
			words: []string{"go", "run", "./cmd/cloister", "setup", "gvisor"}}); err != nil {
			return err
		}
		return errors.Join(os.Chmod(data, 0o755), os.Chmod(filepath.Dir(kernel), 0o755)) // the ordinary user runs it too
	})
}
