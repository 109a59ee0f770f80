package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
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

// ownOf is the group that this process is in, of a controller; of version 2 without one.
func ownOf(controller string) (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for controllers, path := range memberships(text) {
		if slices.Contains(strings.Split(controllers, ","), controller) {
			return path, nil
		}
	}
	if controller == "" {
		controller = "unified"
	}
	return "", fmt.Errorf("this process is in no control group: %s", controller)
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
