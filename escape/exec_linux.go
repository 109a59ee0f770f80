package escape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

func (w *World) pause(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-w.ctx.Done():
		return w.ctx.Err()
	case <-t.C:
		return nil
	}
}

// Until asks until it is so, for the given time. Without a layer much of it never comes.
func (w *World) Until(d time.Duration, is func() bool) bool {
	if w.Extra["CLOISTER_LAYER_OFF"] != "" {
		d = min(d, 30*time.Second)
	}
	for deadline := time.Now().Add(d); ; {
		if is() {
			return true
		}
		if time.Now().After(deadline) || w.pause(20*time.Millisecond) != nil {
			return false
		}
	}
}

func (w *World) environ() []string {
	var out []string
	all := maps.Clone(w.Env)
	maps.Copy(all, w.Extra)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, k+"="+all[k])
	}
	return out
}

// Exec runs a program on the host, as the person would.
func (w *World) Exec(name string, args ...string) (Result, error) {
	within := 2 * time.Minute
	if w.Kind.Machine != "" {
		within = 6 * time.Minute // work over many files takes a hundred times longer where a machine is emulated
	}
	return w.exec(within, name, args...)
}

func (w *World) exec(within time.Duration, name string, args ...string) (Result, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.ctx, within)
	defer cancel()
	words := w.accepted(append([]string{name}, args...))
	c := exec.CommandContext(ctx, words[0], words[1:]...)
	c.Dir, c.Env = w.Dir, w.environ()
	c.WaitDelay = 5 * time.Second
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	status := -1
	if c.ProcessState != nil {
		status = c.ProcessState.ExitCode()
	}
	if strings.Contains(errs.String(), noMachine) {
		w.unbooted++
	}
	return Result{out.String(), errs.String(), status, time.Since(began)}, err
}

// noMachine begins what a start says for which no guest booted: of what was to be tried in it nothing is known.
const noMachine = "start microvm: "

// accepted are words of which the first "cloister run" says what cloisters of this kind need.
func (w *World) accepted(words []string) []string {
	flags := w.Kind.Flags()
	for i, word := range words {
		switch {
		case len(flags) == 0:
			return words
		case i > 0 && word == "run" && words[i-1] == w.Cloister:
			return slices.Insert(words, i+1, flags...)
		case strings.Contains(word, w.Cloister+" run "):
			run := w.Cloister + " run "
			words[i] = strings.ReplaceAll(word, run, run+strings.Join(flags, " ")+" ")
			return words
		}
	}
	return words
}

// Outcome runs a command in a cloister and gives what came of it, an error too.
func (w *World) Outcome(flags []string, argv ...string) Result {
	res, err := w.Run(flags, argv...)
	if err != nil {
		res.Stderr += err.Error()
		res.Status = -1
	}
	return res
}

// Run runs a command in a cloister of the project.
func (w *World) Run(flags []string, argv ...string) (Result, error) {
	return w.Exec(w.Cloister, w.running(flags, argv)...)
}

func (w *World) running(flags, argv []string) []string {
	return slices.Concat([]string{"run"}, flags, []string{"--"}, argv)
}

// Try makes the tries of cases in one cloister.
func (w *World) Try(flags []string, cases []Case) (Result, error) {
	know, err := w.Know()
	if err != nil {
		return Result{}, err
	}
	argv := []string{w.Self, "attempts"}
	for _, c := range cases {
		argv = append(argv, c.ID)
	}
	all := slices.Concat(w.Kind.Shown(w.Self), []string{"-e", EnvInside + "=" + know}, flags)
	return w.exec(w.within(len(cases)), w.Cloister, w.running(all, argv)...)
}

// within is the time of so many cases. Each has its own limit; without a layer many
// wait for what never answers.
func (w *World) within(cases int) time.Duration {
	all := 2*time.Minute + time.Duration(cases)*10*time.Second
	if len(w.Extra) == 0 {
		all = min(all, 15*time.Minute) // script/test ends everything after twenty, and then there is no report
	}
	return all
}

// EnvInside is where an attempt finds what it knows.
const EnvInside = "ESCAPE_INSIDE"

// Control makes the tries of a case outside, unconfined; in a namespace of its
// own where namespaced, which is what an ordinary user may always have.
func (w *World) Control(c Case, namespaced bool) (Result, error) {
	in := w.Inside
	in.Control = true
	know, err := json.Marshal(in)
	if err != nil {
		return Result{}, fmt.Errorf("tell what is known: %w", err)
	}
	ctx, cancel := context.WithTimeout(w.ctx, 2*time.Minute)
	defer cancel()
	p := exec.CommandContext(ctx, w.Self, "attempt", c.ID)
	p.Dir, p.Env = w.Project, append(w.environ(), EnvInside+"="+string(know))
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		// What root mounts or names in a control is never the host's.
		p.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS
	}
	if namespaced {
		one := func(id int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		}
		p.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
		p.SysProcAttr.UidMappings, p.SysProcAttr.GidMappings = one(os.Geteuid()), one(os.Getegid())
	}
	var out bytes.Buffer
	p.Stdout, p.Stderr = &out, &out
	p.WaitDelay = time.Second
	err = p.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return Result{Stdout: out.String(), Status: p.ProcessState.ExitCode()}, err
}
