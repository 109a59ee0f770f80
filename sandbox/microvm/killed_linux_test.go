package microvm_test

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/microvm/monitor"
	"cloister/sandbox/sandboxtest"
)

// TestMachineKilled ends each program of a machine: so does the run, which says so, and nothing
// is left of the others.
func TestMachineKilled(t *testing.T) {
	driver := ready(t)
	for _, name := range []string{"qemu-system-x86_64", "virtiofsd", monitor.Name} {
		t.Run(name, func(t *testing.T) {
			h := sandboxtest.New(t, driver())
			ready := filepath.Join(h.Project, "ready")
			var list map[string]int
			out := h.Run(t, sandboxtest.Options{During: func(b sandbox.Box) {
				await(t, ready)
				if list = programs(t, b); list[name] == 0 {
					t.Fatalf("there is no %s among %v", name, list)
				}
				if err := unix.Kill(list[name], unix.SIGKILL); err != nil {
					t.Error(err)
				}
			}}, "sh", "-c", "touch ready; while :; do sleep 1; done")
			if out.Status.ExitCode() != 137 || out.Err == nil {
				t.Errorf("%+v", out)
			}
			if name != monitor.Name && out.Err != nil && !strings.Contains(out.Err.Error(), name) {
				t.Errorf("it is said: %v", out.Err)
			}
			for other, pid := range list {
				if err := unix.Kill(pid, 0); err != unix.ESRCH {
					t.Errorf("%s lives: %v", other, err)
				}
			}
		})
	}
}
