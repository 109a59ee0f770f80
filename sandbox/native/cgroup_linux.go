package native

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	cgroups "cloister/internal/cgroup"
	"cloister/sandbox"
)

// cgroup bounds one cloister. It is made only for limits that somebody asked
// for: the number of processes is bounded without one (buildLimits), and each
// cgroup costs a start several milliseconds. A nil cgroup bounds nothing.
type cgroup struct{ folders []string }

// swapFile bounds memory and swap together, in version 1.
const swapFile = "memory.memsw.limit_in_bytes"

// newCgroup makes the groups that the limits need.
func newCgroup(id string, l sandbox.Limits) (*cgroup, error) {
	if l.Memory == 0 && l.CPUs == 0 {
		return nil, nil
	}
	if _, err := os.Stat(cgroups.Root + "/cgroup.controllers"); err == nil {
		return newUnifiedCgroup(id, l)
	}
	g := &cgroup{}
	set := func(controller string, files [][2]string) error {
		if !cgroups.Is(filepath.Join(cgroups.Root, controller)) {
			return limitError(controller, errors.New("the kernel offers no such controller here"))
		}
		dir := filepath.Join(cgroups.Root, controller, "cloister", id)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return limitError(controller, err)
		}
		g.folders = append(g.folders, dir)
		for _, f := range files {
			err := cgroups.Set(filepath.Join(dir, f[0]), f[1])
			if f[0] == swapFile && errors.Is(err, fs.ErrNotExist) {
				err = nil // swap is not accounted here
			}
			if err != nil {
				return limitError(controller, err)
			}
		}
		return nil
	}
	var err error
	if l.Memory > 0 {
		n := strconv.FormatInt(l.Memory, 10)
		err = set("memory", [][2]string{{"memory.limit_in_bytes", n}, {swapFile, n}})
	}
	if err == nil && l.CPUs > 0 {
		err = set("cpu", [][2]string{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", strconv.FormatInt(int64(l.CPUs*100000), 10)}})
	}
	if err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// newUnifiedCgroup is version 2: one folder beside this process's own, which a
// service manager must have delegated.
func newUnifiedCgroup(id string, l sandbox.Limits) (*cgroup, error) {
	own, err := cgroups.Own()
	if err != nil {
		return nil, limitError("cgroup v2", err)
	}
	parent := filepath.Dir(filepath.Join(cgroups.Root, own))
	if os.Geteuid() == 0 {
		parent = cgroups.Root
	}
	// The controllers may have to be passed on; where that is refused, the files
	// below are absent, and that is told.
	_ = cgroups.Set(filepath.Join(parent, "cgroup.subtree_control"), "+memory +cpu")
	dir := filepath.Join(parent, "cloister-"+id)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, limitError("cgroup v2", err)
	}
	g := &cgroup{folders: []string{dir}}
	var files [][2]string
	if l.Memory > 0 {
		files = append(files, [2]string{"memory.max", strconv.FormatInt(l.Memory, 10)}, [2]string{"memory.swap.max", "0"}, [2]string{"memory.oom.group", "1"})
	}
	if l.CPUs > 0 {
		files = append(files, [2]string{"cpu.max", strconv.FormatInt(int64(l.CPUs*100000), 10) + " 100000"})
	}
	for _, f := range files {
		if err := cgroups.Set(filepath.Join(dir, f[0]), f[1]); err != nil {
			return nil, errors.Join(limitError("cgroup v2", err), g.remove())
		}
	}
	return g, nil
}

func limitError(controller string, err error) error {
	return &sandbox.Unsupported{
		Guarantee: "resource limits", Residue: "cgroup-limits",
		Reason: fmt.Sprintf("start native: limit %s: %v", controller, err),
		Fix:    "have the service manager delegate a cgroup: run under systemd-run --user --scope -p Delegate=yes, or as root",
	}
}

// findCgroup is the group that a running cloister's command is in, for one more
// process beside it; nil where it has none.
func findCgroup(pid int, id string) *cgroup {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return nil // it has ended, which the entering tells
	}
	g := &cgroup{}
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path, as in cgroups(7)
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controller, path, _ := strings.Cut(rest, ":")
		if base := filepath.Base(path); base == id || base == "cloister-"+id {
			g.folders = append(g.folders, filepath.Join(cgroups.Root, controller, path))
		}
	}
	if len(g.folders) == 0 {
		return nil
	}
	return g
}

func (g *cgroup) add(pid int) error {
	if g == nil {
		return nil
	}
	for _, dir := range g.folders {
		if err := cgroups.Set(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("start native: enter cgroup: %w", err)
		}
	}
	return nil
}

// remove deletes the groups. The kernel lets go of the last member a moment
// after it has been waited for.
func (g *cgroup) remove() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, dir := range g.folders {
		var err error
		for range 50 {
			if err = unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
				err = nil
				break
			}
			<-time.After(time.Millisecond)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("remove cgroup %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}
