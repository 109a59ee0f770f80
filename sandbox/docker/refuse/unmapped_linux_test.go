package refuse_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/needs"
	"cloister/sandbox"
	"cloister/sandbox/docker/refuse"
)

// A folder whose owner cannot be mapped is refused before an engine is asked for anything; proc
// has no id-mapped mounts in any kernel, a disk's file system has.
func TestUnmapped(t *testing.T) {
	if os.Geteuid() != 0 {
		if err := refuse.Unmapped("/proc", os.Stdin); err != nil {
			t.Errorf("who may make no mount is refused: %v", err)
		}
		return
	}
	c := exec.CommandContext(t.Context(), "cat")
	hold, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	one := []syscall.SysProcIDMap{{HostID: 1000, Size: 1}}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: one, GidMappings: one}
	err = c.Start()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		needs.Missing(t, "userns", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	space, err := os.Open("/proc/" + strconv.Itoa(c.Process.Pid) + "/ns/user")
	if err = errors.Join(err, hold.Close(), c.Wait()); err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	if err := refuse.Unmapped(t.TempDir(), space); err != nil {
		t.Errorf("a folder of a disk: %v", err)
	}
	err = refuse.Unmapped("/proc/sys", space)
	if u, ok := errors.AsType[*sandbox.Unsupported](err); !ok || u.Fix == "" {
		t.Errorf("a folder of proc: %v, want a refusal that says what to do", err)
	}
	if err := refuse.Unmapped(t.TempDir()+"/none", space); err == nil {
		t.Error("a folder that is not there is passed")
	}
}
