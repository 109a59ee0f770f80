package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
		for _, as := range []string{"user", "root"} {
			if as == "root" && !r.root {
				continue
			}
			parts = append(parts, func() {
				r.madeIn(kind{}, "attempts to escape "+part+" as "+as, as, natively, "-part", part)
			})
		}
	}
	together(parts...)
}

// layers makes the attempts with one layer left out at a time, and writes what was seen:
// natively, or in the kinds of KINDS.
func (r *runner) layers() {
	if !r.rootOnly("layers left out") || !r.corpus() || !r.machine.ordinary() {
		return
	}
	r.eachKind([]string{"native"}, func(k kind, name, as string) {
		file := strings.Replace("holds-"+name+"-"+as+".tsv", "native-", "", 1)
		seen := r.esc(file)
		r.writing("escape/testdata/"+file, seen, func() {
			r.madeIn(k, "layers left out, "+name+", as "+as, as, 8*time.Hour,
				"-layers", "-at-once", "2", "-run", os.Getenv("ATTEMPTS"), "-holds", seen, "-write")
		})
	})
	r.command("write the documents", r.esc("cloister-escape"), "-document", ".")
}

// columns writes what was held in every kind of cloister, as root and as a user: into SEEN as each case ends, where
// that is a file, so that a run that is cut off keeps what it saw.
func (r *runner) columns() {
	if !r.rootOnly("attempts in every kind of cloister") || !r.corpus() || !r.product() || !r.machine.ordinary() {
		return
	}
	seen := cmp.Or(os.Getenv("SEEN"), r.esc("columns"))
	if !r.check("a file for what is seen", func(io.Writer) error {
		return errors.Join(os.WriteFile(seen, nil, 0o666), os.Chmod(seen, 0o666))
	}) {
		return
	}
	r.eachKind([]string{"native", "image", "user", "docker", "gvisor"}, func(k kind, name, as string) {
		try := func(what string, flags ...string) {
			r.madeIn(k, what+", "+name+", as "+as, as, 8*time.Hour, append(flags, "-columns", seen, "-again")...)
		}
		try("attempts", "-run", os.Getenv("ATTEMPTS"), "-skip", k.off)
		if k.off != "" {
			try("layers that cases leave out", "-run", k.off)
		}
	})
	r.check("keep what was seen", func(io.Writer) error {
		const kept = "escape/testdata/columns.tsv"
		text, err := os.ReadFile(seen)
		if err != nil || len(text) == 0 {
			return fmt.Errorf("%s is empty: %w", seen, err)
		}
		before, err := os.ReadFile(kept)
		return errors.Join(err, os.WriteFile(kept, slices.Concat(before, text), 0o644))
	})
	r.command("write the documents", r.esc("cloister-escape"), "-document", ".")
}

// writing gives a check that runs as anyone a copy of a file of the tree to write,
// and keeps what it wrote.
func (r *runner) writing(kept, seen string, do func()) {
	r.check("copy "+filepath.Base(kept), func(io.Writer) error {
		text, err := os.ReadFile(kept)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
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

func (r *runner) rootOnly(what string) bool {
	return r.root || r.check(what, func(io.Writer) error { return errors.New("root starts it, for itself and for an ordinary user") })
}
