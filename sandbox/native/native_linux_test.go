package native_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/native"
	"cloister/sandbox/sandboxtest"
)

// TestMain makes this test binary the process that owns a box of its own, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == native.OwnerName {
		// os.Exit has the race detector wait a second, which each box of TestApart would.
		syscall.Exit(native.Main(context.Background(), os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestDriver(t *testing.T) {
	sandboxtest.Run(t, func() sandbox.Driver { return native.New("test") })
}

// TestApart: a box that a process of its own owns is no other to its user.
func TestApart(t *testing.T) {
	sandboxtest.RunAtOnce(t, func() sandbox.Driver { return native.New("test").Apart() })
}

// TestSharedMounts: where systemd runs, every mount of the host is shared. What
// is mounted inside must not appear outside.
func TestSharedMounts(t *testing.T) {
	const inside = "CLOISTER_TEST_SHARED"
	if os.Geteuid() == 0 && os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "shared", os.Args[0], "-test.run=^TestSharedMounts$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return
	}
	before := mounts(t)
	h := sandboxtest.New(t, native.New("test"))
	if out := h.Run(t, sandboxtest.Options{}, "true"); out.Err != nil || out.Status.ExitCode() != 0 {
		t.Fatalf("%+v", out)
	}
	// One that went away in the meantime is another's: it was there before the cloister.
	for line := range strings.Lines(mounts(t)) {
		if !strings.Contains(before, line) {
			t.Errorf("a mount of the host that was not there before:\n%s", line)
		}
	}
}

func mounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNoUserNamespaces: the kernel's own limit forbids further user namespaces,
// beside the filter.
func TestNoUserNamespaces(t *testing.T) {
	h := sandboxtest.New(t, native.New("test"))
	out := h.Run(t, sandboxtest.Options{}, "cat", "/proc/sys/user/max_user_namespaces")
	if out.Err != nil || out.Stdout != "0\n" {
		t.Errorf("%+v", out)
	}
}
