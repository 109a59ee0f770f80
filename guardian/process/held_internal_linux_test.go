package process

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// A shim whose session ended just now is killed by nobody: its descriptor may hold
// another's by then.
func TestKillAfterTheEnd(t *testing.T) {
	begin := func() (*exec.Cmd, *Process) {
		c := exec.CommandContext(t.Context(), "sleep", "60")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		p, err := Hold(c.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		return c, p
	}
	const number = 900 // that nobody else has
	move := func(p *Process) {
		fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, number)
		if err != nil || fd != number {
			t.Fatal(fd, err)
		}
		p.Close()
		p.fd = fd
	}
	_, ended := begin()
	move(ended)
	ended.Close()
	other, held := begin()
	move(held)
	defer held.Close()
	if err := ended.Kill(); err != nil {
		t.Error(err)
	}
	if err := other.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the other: %v", err)
	}
	if err := held.Kill(); err != nil {
		t.Error(err)
	}
	if err := other.Wait(); err == nil {
		t.Error("the one that is held was not killed")
	}
	if err := held.Kill(); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
}
