package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// startLimit bounds how many times bwrap's start a run may take. The aim is 3.0: with
// all else stopped it is 2.7 to 3.0 as a user, 3.4 as root with many toolchains. A
// machine that does something else shows twice that: this bound keeps it from growing.
const startLimit = 8.0

// start compares a run with bwrap's in one measurement. A busy machine gets three
// tries: noise slows down whoever does more.
func (r *runner) start() {
	if !r.product() {
		return
	}
	r.check("start time", func(out io.Writer) error {
		var err error
		for range 3 {
			if err = r.startOnce(out); err == nil {
				return nil
			}
		}
		return err
	})
}

func (r *runner) startOnce(out io.Writer) (err error) {
	dir := filepath.Join(r.work, "start")
	product, project, times := filepath.Join(r.bin, "cloister"), filepath.Join(dir, "project"), filepath.Join(dir, "times.json")
	env := []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir + "/c", "XDG_STATE_HOME=" + dir + "/s",
		"XDG_DATA_HOME=" + dir + "/d", "XDG_RUNTIME_DIR=" + dir + "/run"}
	run := func(words ...string) error {
		return r.run(out, cmd{words: words, dir: project, env: env, within: 5 * time.Minute})
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "run"), 0o700), os.MkdirAll(project, 0o755)); err != nil {
		return err
	}
	if err := errors.Join(run("git", "init", "-q", "."), run(product, "guardian", "start")); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run(product, "guardian", "stop")) }()
	if err := run("hyperfine", "-N", "--warmup", "5", "--runs", "60", "--export-json", times,
		product+" run -- true", "bwrap --unshare-all --ro-bind / / true"); err != nil {
		return err
	}
	text, err := os.ReadFile(times)
	if err != nil {
		return err
	}
	var measured struct{ Results []struct{ Times []float64 } }
	if err := json.Unmarshal(text, &measured); err != nil || len(measured.Results) != 2 {
		return fmt.Errorf("hyperfine's figures: %w", err)
	}
	var median [2]float64
	for i, m := range measured.Results {
		slices.Sort(m.Times)
		median[i] = m.Times[len(m.Times)/2]
	}
	ratio := median[0] / median[1]
	r.say("note  start: run -- true %.1f ms, bwrap %.1f ms: %.2fx (the aim is 3, the bound of this check %.1f)\n",
		median[0]*1e3, median[1]*1e3, ratio, startLimit)
	if ratio > startLimit {
		return fmt.Errorf("a start takes %.2f times bwrap's", ratio)
	}
	return nil
}

func (r *runner) bench() { r.command("bench in short", "go", "run", "./bench", "-short", "-out", "") }

// timeFigures measures kept workspaces beside their peers, and writes docs/time-figures.md.
func (r *runner) timeFigures() {
	if r.root && !r.check("the tools of btrfs and xfs", func(out io.Writer) error {
		return r.machine.apt(out, "btrfs-progs", "xfsprogs")
	}) {
		return
	}
	words := []string{"go", "run", "./bench", "-only", "kept,working", "-install=false"}
	switch {
	case os.Getenv("QUICK") == "1":
		words = append(words, "-quick")
	case os.Getenv("MILLION") != "0":
		words = append(words, "-million")
	}
	r.command("figures of time", words...)
}
