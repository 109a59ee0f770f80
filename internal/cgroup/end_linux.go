package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// endWithin is how long the kernel may take to end what was killed.
const endWithin = 10 * time.Second

// Kill ends every process in the group, also those that stand still.
func (g *Group) Kill() error {
	// None comes in addition: a fork is refused from now on.
	for _, dir := range g.folders {
		_ = Set(filepath.Join(dir, "pids.max"), "0") // it is in one of them
	}
	end := time.Now().Add(endWithin)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		left, err := g.members()
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("end control group: %d processes are left that the kernel does not end", len(left))
		}
		if g.killer == "" || Set(filepath.Join(g.killer, "cgroup.kill"), "1") != nil {
			for _, pid := range left {
				g.end(pid)
			}
		}
		<-time.After(pause)
	}
}

// end kills one member, and no one who got its number since it was listed.
func (g *Group) end(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it is gone
	}
	defer unix.Close(fd)
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err == nil && bytes.Contains(text, []byte("/"+filepath.Base(g.folders[0])+"\n")) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // it may have ended by itself
	}
}

// members are the processes in the group.
func (g *Group) members() ([]int, error) {
	var out []int
	for _, dir := range g.folders {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look into control group: %w", err)
		}
		for line := range bytes.Lines(text) {
			if pid, err := strconv.Atoi(strings.TrimSpace(string(line))); err == nil && pid > 1 {
				out = append(out, pid)
			}
		}
	}
	return out, nil
}

// Close ends what is in the group, and removes it.
func (g *Group) Close() error {
	if err := g.Kill(); err != nil {
		return err
	}
	return g.remove()
}

// remove deletes the folders. The kernel lets go of the last member a moment after
// it has been waited for.
func (g *Group) remove() error {
	var errs []error
	for _, dir := range g.folders {
		var err error
		for range 200 {
			if err = unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
				err = nil
				break
			}
			<-time.After(time.Millisecond)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove control group %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// Sweep ends and removes the groups whose names begin so.
func Sweep(prefix string) error {
	found, err := named(prefix)
	errs := []error{err}
	for _, g := range found {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// Prune removes the groups whose names begin so, but those that still have
// processes, those that are spared by their name and those that are another user's.
func Prune(prefix string, spare func(name string) bool) error {
	found, err := named(prefix)
	errs := []error{err}
	for name, g := range found {
		if spare(name) {
			continue
		}
		for _, dir := range g.folders {
			switch err := unix.Rmdir(dir); {
			case err == nil, errors.Is(err, unix.ENOENT), errors.Is(err, unix.EBUSY):
			case errors.Is(err, fs.ErrPermission): // version 1 shows everybody's
			default:
				errs = append(errs, fmt.Errorf("remove control group %s: %w", dir, err))
			}
		}
	}
	return errors.Join(errs...)
}

// named are the groups whose names begin so.
func named(prefix string) (map[string]*Group, error) {
	pattern := filepath.Join(Root, "*", prefix+"*")
	if Unified() {
		parent, err := beside()
		if err != nil {
			return nil, nil // then no group was made either
		}
		pattern = filepath.Join(parent, prefix+"*")
	}
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("look for control groups: %w", err)
	}
	out := map[string]*Group{}
	for _, dir := range dirs {
		if !Is(dir) {
			continue
		}
		g := out[filepath.Base(dir)]
		if g == nil {
			g = &Group{}
			out[filepath.Base(dir)] = g
		}
		g.folders = append(g.folders, dir)
		g.findKiller()
	}
	return out, nil
}
