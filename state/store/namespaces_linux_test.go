package store_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/needs"
)

// inNamespaces reports whether this test runs in a user and a mount namespace of its own.
// Otherwise it has run there by now: in another process, which env marks, and in which passed
// had to pass.
func inNamespaces(t *testing.T, env, passed string) bool {
	t.Helper()
	if os.Getenv(env) != "" {
		return true
	}
	test, _, _ := strings.Cut(passed, "/")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"=1")
	one := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: one(os.Getuid()), GidMappings: one(os.Getgid()),
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		needs.Missing(t, "userns", err)
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+passed)) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}
