package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// natively bounds the corpus, which takes two minutes on a quiet machine.
const natively = 20 * time.Minute

// corpus builds the product as it is released, the one that can leave layers out, and
// the attempts.
func (r *runner) corpus() bool {
	return r.once("build the attempts", func(out io.Writer) error {
		if err := os.MkdirAll(r.esc(""), 0o755); err != nil {
			return err
		}
		return errors.Join(r.makeWorlds(),
			r.run(out, cmd{words: []string{"go", "build", "-o", r.esc("cloister"), "./cmd/cloister"}}),
			r.run(out, cmd{words: []string{"go", "build", "-tags", "cloister_layeroff", "-o", r.esc("off"), "./cmd/cloister"}}),
			r.run(out, cmd{words: []string{"go", "build", "-o", r.esc("cloister-escape"), "./cmd/cloister-escape"}}))
	})
}

// worlds is the folder of the attempts' own files, for any user. It is not below /tmp,
// which a cloister may write for itself.
func (r *runner) worlds() string { return filepath.Join("/var/tmp", filepath.Base(r.work)) }

func (r *runner) makeWorlds() error {
	if err := os.Mkdir(r.worlds(), 0o777); err != nil {
		return err
	}
	r.later(func() {
		if err := os.RemoveAll(r.worlds()); err != nil {
			r.say("note  remove the attempts' files: %v\n", err)
		}
	})
	r.apart(r.worlds())
	return os.Chmod(r.worlds(), 0o777|os.ModeSticky)
}

func (r *runner) esc(name string) string { return filepath.Join(r.bin, "esc", name) }

// attempts is a check that makes the attempts of the corpus.
func (r *runner) attempts(name string, user bool, within time.Duration, env []string, flags ...string) {
	r.check(name, func(out io.Writer) error {
		words := append([]string{r.esc("cloister-escape"), "-dir", r.worlds(), "-cloister", r.esc("cloister"), "-off", r.esc("off")}, flags...)
		rows := &failing{out: out}
		err := r.run(rows, cmd{words: words, user: user, env: env, within: within})
		return errors.Join(err, rows.flush())
	})
}

// failing passes rows on but those that passed.
type failing struct {
	out  io.Writer
	rest string
}

func (f *failing) Write(p []byte) (int, error) {
	text := f.rest + string(p)
	at := strings.LastIndex(text, "\n") + 1
	f.rest = text[at:]
	for line := range strings.Lines(text[:at]) {
		if words := strings.Fields(line); len(words) > 1 && words[1] == "ok" {
			continue
		}
		if _, err := io.WriteString(f.out, line); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (f *failing) flush() error {
	_, err := io.WriteString(f.out, f.rest)
	return err
}

func (f *failing) spent(d time.Duration) {
	if log, ok := f.out.(interface{ spent(d time.Duration) }); ok {
		log.spent(d)
	}
}

// together runs checks side by side that wait more than they compute.
func together(checks ...func()) {
	var wait sync.WaitGroup
	for _, check := range checks {
		wait.Go(check)
	}
	wait.Wait()
}

func (r *runner) escape() {
	if !r.corpus() {
		return
	}
	if r.root && !r.machine.ordinary() {
		return
	}
	var parts []func()
	for _, part := range []string{"1/2", "2/2"} {
		parts = append(parts, func() { r.attempts("attempts to escape "+part+" as user", r.root, natively, nil, "-part", part) })
		if r.root {
			parts = append(parts, func() { r.attempts("attempts to escape "+part+" as root", false, natively, nil, "-part", part) })
		}
	}
	together(parts...)
}

// layers makes the attempts with one layer left out at a time, and writes what was seen.
func (r *runner) layers() {
	if !r.rootOnly("layers left out") || !r.corpus() || !r.machine.ordinary() {
		return
	}
	for _, as := range []string{"root", "user"} {
		kept, seen := "escape/testdata/holds-"+as+".tsv", r.esc("holds-"+as)
		r.writing(kept, seen, func() {
			r.attempts("layers left out as "+as, as == "user", 8*time.Hour, nil,
				"-layers", "-run", os.Getenv("ATTEMPTS"), "-holds", seen, "-write")
		})
	}
	r.command("write the documents", r.esc("cloister-escape"), "-document", ".")
}

// columns writes what was held in every kind of cloister, as root and as a user.
func (r *runner) columns() {
	if !r.rootOnly("attempts in every kind of cloister") || !r.machine.installQuietly("dockerd", "docker.io") ||
		!r.corpus() || !r.product() || !r.machine.ordinary() {
		return
	}
	e := r.engine()
	if e == nil || !r.baseImage() {
		return
	}
	within := 20 * time.Minute
	if text := os.Getenv("CONTAINED_WITHIN"); text != "" {
		if d, err := time.ParseDuration(text + "s"); err == nil {
			within = d
		}
	}
	kept, seen := "escape/testdata/columns.tsv", r.esc("columns")
	wanted := strings.Fields(os.Getenv("KINDS"))
	if len(wanted) == 0 {
		wanted = []string{"native", "image", "docker"}
	}
	r.writing(kept, seen, func() {
		for _, kind := range wanted {
			for _, as := range []string{"root", "user"} {
				r.contained(e, kind, as, within, "-columns", seen, "-run", os.Getenv("ATTEMPTS"))
			}
		}
	})
	r.command("write the documents", r.esc("cloister-escape"), "-document", ".")
	e.stop()
}

// writing gives a check that runs as anyone a copy of a file of the tree to write,
// and keeps what it wrote.
func (r *runner) writing(kept, seen string, do func()) {
	r.check("copy "+filepath.Base(kept), func(io.Writer) error {
		text, err := os.ReadFile(kept)
		if err != nil {
			return err
		}
		return errors.Join(os.WriteFile(seen, text, 0o666), os.Chmod(seen, 0o666))
	})
	do()
	r.check("keep "+filepath.Base(kept), func(io.Writer) error {
		text, err := os.ReadFile(seen)
		if err != nil || len(text) == 0 {
			return fmt.Errorf("%s is empty: %w", seen, err)
		}
		return os.WriteFile(kept, text, 0o644)
	})
}

// contained makes attempts against another kind of cloister than the usual.
func (r *runner) contained(e *engine, kind, as string, within time.Duration, flags ...string) {
	of := map[string][]string{
		"native": {"-isolation", "native"},
		"image":  {"-isolation", "native", "-image", "cloister-base"},
		"docker": {"-isolation", "docker", "-image", "cloister-base"},
	}[kind]
	flags = slices.Concat(of, []string{"-images", r.images(as)}, flags)
	r.attempts("attempts, "+kind+", as "+as, as == "user", within, []string{"DOCKER_HOST=unix://" + e.socket()}, flags...)
}

func (r *runner) rootOnly(what string) bool {
	return r.root || r.check(what, func(io.Writer) error { return errors.New("root starts it, for itself and for an ordinary user") })
}
