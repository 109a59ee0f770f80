package lsm

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever may open the folder of pins may lock it, and no session of another user begins.
func TestPinsOfRootAlone(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		mode os.FileMode
		fine bool
	}{{0o700, os.Geteuid() == 0}, {0o755, false}, {0o710, false}, {0o777 | os.ModeSticky, false}} {
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = rootAlone(f)
		if _, refused := errors.AsType[*Unsupported](err); refused == c.fine {
			t.Errorf("mode %v: %v", c.mode, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Whoever opens while others do must not keep their file system of pins busy: one that is
// mounted before the kernel is asked stays behind.
func TestOpenLeavesNoMount(t *testing.T) {
	if os.Getenv("CLOISTER_PINS") == "" {
		c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestOpenLeavesNoMount$")
		c.Env = append(os.Environ(), "CLOISTER_PINS=1")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if os.Geteuid() != 0 { // who may not mount it at all
			one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
			c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			c.SysProcAttr.UidMappings, c.SysProcAttr.GidMappings = one(os.Geteuid()), one(os.Getegid())
		}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", "/sys/fs", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(Pins, 0o700); err != nil {
		t.Fatal(err)
	}
	var judged atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2 {
				if k, err := Open(); err == nil { // this kernel judges: the file system is wanted
					judged.Store(true)
					_ = k.Close()
				}
			}
		})
	}
	all.Wait()
	if hasPins() && !judged.Load() {
		t.Error("a file system of BPF is left at " + Pins)
	}
}
