package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Root is where the hierarchies lie on every distribution.
const Root = "/sys/fs/cgroup"

// Bounds of a group. Zero bounds nothing.
type Bounds struct {
	Memory int64   // bytes, with swap
	PIDs   int64   // processes and threads
	CPUs   float64 // processors' worth of time; not together with Tree
	Tree   bool    // CPU and Kill are wanted
	// Within is the user that root makes it for, where it is not 0: what bounds this process
	// bounds the group, too.
	Within int
}

// Group is one. The zero value has nothing in it.
type Group struct {
	folders []string // one for each controller of version 1, one of version 2
	killer  string   // the one with cgroup.kill; "" before Linux 5.14
}

// New makes a group of that name, with the controllers that the bounds need: in
// version 1 each has a folder of its own, which costs milliseconds.
func New(name string, b Bounds) (*Group, error) {
	g := &Group{}
	var err error
	if Unified() {
		err = g.make(name, b)
	} else {
		err = g.makeEach(name, b)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make control group: %w", err), g.remove())
	}
	return g, nil
}

// Unified reports whether all controllers are in one hierarchy (cgroups(7)).
func Unified() bool {
	_, err := os.Stat(Root + "/cgroup.controllers")
	return err == nil
}

// makeEach is version 1.
func (g *Group) makeEach(name string, b Bounds) error {
	for _, c := range []struct {
		controller string
		needed     bool
		files      [][2]string
	}{
		{"memory", b.Memory > 0, number(b.Memory, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes")},
		{"pids", b.PIDs > 0 || b.Tree, number(b.PIDs, "pids.max")},
		{"cpu", b.CPUs > 0, number(b.quota(), "cpu.cfs_quota_us")},
		{"cpuacct", b.Tree, nil},
	} {
		if !c.needed {
			continue
		}
		parent := filepath.Join(Root, c.controller)
		if b.Within != 0 {
			own, err := ownOf(c.controller)
			if err != nil {
				return err
			}
			parent = filepath.Join(parent, own)
		}
		if !Is(parent) {
			return fmt.Errorf("%s: the kernel offers no such controller here", c.controller)
		}
		if err := g.add(filepath.Join(parent, name)); err != nil {
			return fmt.Errorf("%s: %w", c.controller, err)
		}
		for _, f := range c.files {
			err := Set(filepath.Join(parent, name, f[0]), f[1])
			if errors.Is(err, fs.ErrNotExist) && strings.Contains(f[0], "memsw") {
				continue // swap is not accounted here
			}
			if err != nil {
				return fmt.Errorf("%s: %w", c.controller, err)
			}
		}
	}
	// Beside them there may be version 2 without controllers: it ends all at once.
	if mixed := filepath.Join(Root, "unified"); b.Tree && Is(mixed) && g.add(filepath.Join(mixed, name)) == nil {
		g.findKiller()
	}
	return nil
}

// make is version 2: one folder beside this process's own, which a service manager
// must have delegated.
func (g *Group) make(name string, b Bounds) error {
	parent, err := beside()
	if b.Within != 0 {
		parent, err = besideOf(b.Within)
	}
	if err != nil {
		return err
	}
	// The controllers may have to be passed on; where that is refused the files
	// below are absent, and that is reported.
	_ = Set(filepath.Join(parent, "cgroup.subtree_control"), "+memory +pids +cpu")
	dir := filepath.Join(parent, name)
	if err := g.add(dir); err != nil {
		return err
	}
	files := append(number(b.Memory, "memory.max"), number(b.PIDs, "pids.max")...)
	if b.Memory > 0 {
		files = append(files, [2]string{"memory.swap.max", "0"}, [2]string{"memory.oom.group", "1"})
	}
	if b.CPUs > 0 {
		files = append(files, [2]string{"cpu.max", fmt.Sprintf("%d %d", b.quota(), period)})
	}
	for _, f := range files {
		if err := Set(filepath.Join(dir, f[0]), f[1]); err != nil {
			return err
		}
	}
	g.findKiller()
	return nil
}

// period is what the kernel shares processor time out by, in microseconds: its own
// default.
const period = 100_000

// quota is the part of a period that a group has: the nearest, since 2.3 times a
// period is a little less than 230000.
func (b Bounds) quota() int64 { return int64(math.Round(b.CPUs * period)) }

func number(n int64, names ...string) [][2]string {
	var out [][2]string
	for _, name := range names {
		if n > 0 {
			out = append(out, [2]string{name, strconv.FormatInt(n, 10)})
		}
	}
	return out
}

func (g *Group) add(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	g.folders = append(g.folders, dir)
	return nil
}

func (g *Group) findKiller() {
	dir := g.folders[len(g.folders)-1]
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err == nil {
		g.killer = dir
	}
}

// Set writes one of the kernel's files. It makes none: where it is absent, no
// kernel listens.
func Set(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Is reports whether a folder is a control group's, and not someone's files in its
// place.
func Is(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	return st.Type == unix.CGROUP_SUPER_MAGIC || st.Type == unix.CGROUP2_SUPER_MAGIC
}

// Enter has this process be where another is, in every hierarchy that is mounted: what
// bounds that one bounds this one, with all that it starts from now on.
func Enter(pid int) error {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return fmt.Errorf("find control group: %w", err)
	}
	g := &Group{}
	for controller, path := range memberships(text) {
		if controller == "" && !Unified() {
			controller = "unified"
		}
		if dir := filepath.Join(Root, strings.TrimPrefix(controller, "name="), path); Is(dir) {
			g.folders = append(g.folders, dir)
		}
	}
	return g.Add(os.Getpid())
}

// Version2 is its folder in the hierarchy of version 2; "" where it has none.
func (g *Group) Version2() string {
	for _, dir := range g.folders {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir
		}
	}
	return ""
}

// Add brings a process in, and with it what it starts from now on.
func (g *Group) Add(pid int) error {
	for _, dir := range g.folders {
		if err := Set(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("enter control group: %w", err)
		}
	}
	return nil
}

// CPU is the processor time of everything that was ever in the group.
func (g *Group) CPU() (time.Duration, error) {
	for _, dir := range g.folders {
		if text, err := os.ReadFile(filepath.Join(dir, "cpuacct.usage")); err == nil {
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			return time.Duration(n), err
		}
	}
	for _, dir := range g.folders {
		if text, err := os.ReadFile(filepath.Join(dir, "cpu.stat")); err == nil {
			n, err := field(text, "usage_usec")
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, errors.New("the control group counts no processor time")
}

// SharedMemory is how many bytes of the group's memory are those of files in memory.
func (g *Group) SharedMemory() (int64, error) {
	for _, dir := range g.folders {
		text, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
		if err != nil {
			continue
		}
		return field(text, "shmem")
	}
	return 0, errors.New("the control group counts no memory")
}

// OutOfMemory reports whether the kernel has killed something for want of memory.
func (g *Group) OutOfMemory() bool {
	for _, dir := range g.folders {
		for _, name := range []string{"memory.oom_control", "memory.events"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				continue
			}
			if n, err := field(text, "oom_kill"); err == nil && n > 0 {
				return true
			}
		}
	}
	return false
}

// field is a number from lines of a name and a number each.
func field(text []byte, name string) (int64, error) {
	for line := range bytes.Lines(text) {
		if rest, ok := strings.CutPrefix(string(line), name+" "); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("there is no %s", name)
}
