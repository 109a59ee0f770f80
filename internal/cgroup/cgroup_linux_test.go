package cgroup_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/cgroup"
	"cloister/internal/needs"
)

// group makes one, or skips where this user can make none: root can on every
// machine that claims to be tested as root.
func group(t *testing.T, b cgroup.Bounds) (*cgroup.Group, string) {
	t.Helper()
	name := fmt.Sprintf("test-cloister-%d-%s", os.Getpid(), strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")))
	g, err := cgroup.New(name, b)
	if err != nil {
		left, _ := filepath.Glob(cgroup.Root + "/*/" + name)
		if len(left) > 0 {
			t.Errorf("what was made before the error is left: %v", left)
		}
		needs.Missing(t, "root", err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(cgroup.Root + "/*/" + name); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return g, name
}

// script runs a shell in the group, from its first step on.
func script(t *testing.T, g *cgroup.Group, text string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "-c", "read go; "+text)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(in, "go"); err != nil {
		t.Fatal(err)
	}
	return c
}

// alive counts the processes with these words on their command line.
func alive(t *testing.T, words string) int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err == nil && strings.ReplaceAll(strings.TrimRight(string(text), "\x00"), "\x00", " ") == words {
			n++
		}
	}
	return n
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: waited for in vain", what)
		}
	}
}

// What left its parent, its session and its group of processes, and what stands
// still, ends with the others.
func TestKill(t *testing.T) {
	g, _ := group(t, cgroup.Bounds{Tree: true})
	n := fmt.Sprintf("sleep 3%d", os.Getpid())
	c := script(t, g, "setsid sh -c '"+n+" & "+n+" &' & "+n+" & sleep 0.3; kill -STOP $!; wait")
	eventually(t, "three sleeps", func() bool { return alive(t, n) == 3 })
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	if alive := alive(t, n); alive != 0 {
		t.Errorf("%d live on", alive)
	}
	if err := c.Wait(); err == nil {
		t.Error("the shell ended by itself")
	}
}

// TestHolds: what bounds a process is read back, and what does not is told.
func TestHolds(t *testing.T) {
	g, _ := group(t, cgroup.Bounds{Memory: 64 << 20, PIDs: 12, CPUs: 1.5})
	c := script(t, g, "sleep 60")
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	}()
	for _, tt := range []struct {
		b    cgroup.Bounds
		want string
	}{
		{cgroup.Bounds{Memory: 64 << 20, PIDs: 12, CPUs: 1.5}, ""},
		{cgroup.Bounds{}, ""},
		{cgroup.Bounds{Memory: 32 << 20}, "memory: bounded by"},
		{cgroup.Bounds{PIDs: 11}, "pids: bounded by 12, not 11"},
		{cgroup.Bounds{CPUs: 1}, "cpu: bounded by"},
	} {
		err := cgroup.Holds(c.Process.Pid, tt.b)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.b, err, tt.want)
		}
	}
	// This process is in no group that bounds processor time so.
	if err := cgroup.Holds(os.Getpid(), cgroup.Bounds{CPUs: 0.01}); err == nil {
		t.Error("a process that nothing bounds is held")
	}
}

// TestHoldsPart: what no float is exactly, is not cut off: an engine that is asked for
// the same has a microsecond more, which would be too much.
func TestHoldsPart(t *testing.T) {
	for cpus, less := range map[float64]float64{2.3: 2.29999, 0.29: 0.28999, 1.13: 1.12999} {
		t.Run(fmt.Sprint(cpus), func(t *testing.T) {
			g, _ := group(t, cgroup.Bounds{CPUs: cpus})
			c := script(t, g, "sleep 60")
			defer func() {
				_ = c.Process.Kill()
				_ = c.Wait() // it was killed
			}()
			if err := cgroup.Holds(c.Process.Pid, cgroup.Bounds{CPUs: cpus}); err != nil {
				t.Error(err)
			}
			if err := cgroup.Holds(c.Process.Pid, cgroup.Bounds{CPUs: less}); err == nil {
				t.Errorf("it has no more than %v", less)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	g, _ := group(t, cgroup.Bounds{Memory: 64 << 20, PIDs: 12, Tree: true})
	// The control is the first line: less is allowed.
	out := filepath.Join(t.TempDir(), "out")
	c := script(t, g, "head -c 10000000 /dev/zero | tail -c 1 >/dev/null && echo small >"+out+"; head -c 300000000 /dev/zero | tail -c 299000000 >/dev/null; exit $?")
	if err := c.Wait(); err == nil || err.Error() != "exit status 137" {
		t.Errorf("it used more memory than it may: %v", err)
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != "small\n" {
		t.Errorf("control: %q, %v", text, err)
	}
	if !g.OutOfMemory() {
		t.Error("nobody knows why it ended")
	}
	n := fmt.Sprintf("sleep 4%d", os.Getpid())
	const twenty = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do %s & done; wait"
	c = script(t, g, fmt.Sprintf(twenty, n))
	if err := c.Wait(); err == nil {
		t.Error("a shell that cannot fork ended well")
	}
	if alive := alive(t, n); alive < 5 || alive > 12 {
		t.Errorf("%d live where 12 may", alive)
	}
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	t.Run("without", func(t *testing.T) {
		g, _ := group(t, cgroup.Bounds{Tree: true})
		c := script(t, g, fmt.Sprintf(twenty, n))
		eventually(t, "control: twenty sleeps", func() bool { return alive(t, n) == 20 })
		if err := g.Kill(); err != nil {
			t.Error(err)
		}
		_ = c.Wait() // it was killed
	})
}

// Processor time of what has ended counts too.
func TestCPU(t *testing.T) {
	g, _ := group(t, cgroup.Bounds{Tree: true})
	before, err := g.CPU()
	if err != nil {
		t.Fatal(err)
	}
	c := script(t, g, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done")
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	after, err := g.CPU()
	if err != nil || after-before < 50*time.Millisecond {
		t.Errorf("it counted %v, %v", after-before, err)
	}
}

// What a guardian that was killed left is found by its name alone.
func TestSweep(t *testing.T) {
	g, name := group(t, cgroup.Bounds{Tree: true})
	n := fmt.Sprintf("sleep 5%d", os.Getpid())
	c := script(t, g, "exec "+n)
	eventually(t, "a sleep", func() bool { return alive(t, n) == 1 })
	if err := cgroup.Sweep("test-cloister-nobody"); err != nil || alive(t, n) != 1 {
		t.Errorf("another's: %v", err)
	}
	if err := cgroup.Sweep(name[:len(name)-3]); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("it ended by itself")
	}
}

// Version 1 shows everybody's groups: another user's is no error, which would be tried
// again for ever.
func TestPruneLeavesAnothersAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		needs.Missing(t, "root", fmt.Errorf("only root can be two users"))
	}
	_, name := group(t, cgroup.Bounds{Tree: true})
	pruned := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends as nobody
		if _, err := unix.SetfsuidRetUid(65534); err != nil {
			pruned <- err
			return
		}
		pruned <- cgroup.Prune(name, func(string) bool { return false })
	}()
	if err := <-pruned; err != nil {
		t.Errorf("another user's: %v", err)
	}
	if left, _ := filepath.Glob(cgroup.Root + "/*/" + name); len(left) == 0 && !cgroup.Unified() {
		t.Error("another user's is gone")
	}
	if err := cgroup.Prune(name, func(string) bool { return false }); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(cgroup.Root + "/*/" + name); len(left) > 0 {
		t.Errorf("one's own is left: %v", left)
	}
}
