package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// beside is where this process may make groups of version 2.
func beside() (string, error) {
	if os.Geteuid() == 0 {
		return Root, nil
	}
	own, err := Own()
	return filepath.Dir(filepath.Join(Root, own)), err
}

// besideOf is where a user might make groups of version 2 beside this process's own: the
// service manager gave it the folder, and the right to move processes there.
func besideOf(uid int) (string, error) {
	own, err := Own()
	if err != nil {
		return "", err
	}
	parent := filepath.Dir(filepath.Join(Root, own))
	for _, name := range []string{parent, filepath.Join(parent, "cgroup.procs")} {
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return "", err
		}
		if int(st.Uid) != uid {
			return "", fmt.Errorf("%s is not delegated to uid %d: %w", name, uid, fs.ErrPermission)
		}
	}
	return parent, nil
}

// Own is the group of version 2 that this process is in.
func Own() (string, error) { return ownOf("") }

// PathOf is the group of version 2 that a process is in, as this process sees it.
func PathOf(pid int) (string, error) {
	path, found, err := joined(strconv.Itoa(pid), "")
	if err != nil {
		return "", fmt.Errorf("find control group: %w", err)
	}
	if !found {
		return "", fmt.Errorf("process %d is in no control group of version 2", pid)
	}
	return path, nil
}

// ownOf is the group that this process is in, of a controller; of version 2 without one.
func ownOf(controller string) (string, error) {
	path, found, err := joined("self", controller)
	if err != nil || found {
		return path, err
	}
	if controller == "" {
		controller = "unified"
	}
	return "", fmt.Errorf("this process is in no control group: %s", controller)
}

// joined is the group that a process is in, by its name in /proc, of a controller; of version 2 without one.
func joined(process, controller string) (path string, found bool, err error) {
	text, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return "", false, err
	}
	for controllers, path := range memberships(text) {
		if slices.Contains(strings.Split(controllers, ","), controller) {
			return path, true, nil
		}
	}
	return "", false, nil
}

// Of is the group that a process is in whose name ends so; nil where it is in none.
func Of(pid int, suffix string) (*Group, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil // it has ended, and what enters its namespaces learns that
	}
	if err != nil {
		return nil, fmt.Errorf("find control group: %w", err)
	}
	g := &Group{}
	for controller, path := range memberships(text) {
		if !strings.HasSuffix(filepath.Base(path), suffix) {
			continue
		}
		if controller == "" && !Unified() {
			controller = "unified"
		}
		g.folders = append(g.folders, filepath.Join(Root, controller, path))
	}
	if len(g.folders) == 0 {
		return nil, nil
	}
	return g, nil
}

// memberships are the controllers and the path of each hierarchy that a text of
// /proc tells of: hierarchy:controllers:path (cgroups(7)).
func memberships(text []byte) iter.Seq2[string, string] {
	return func(yield func(controllers, path string) bool) {
		for line := range strings.Lines(string(text)) {
			_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
			if controllers, path, _ := strings.Cut(rest, ":"); !yield(controllers, path) {
				return
			}
		}
	}
}
