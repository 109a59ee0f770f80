// Package needs finds what a test needs of its machine.
//
// It promises that what CLOISTER_TEST_NEEDS claims and is not there fails a test,
// which is skipped where nothing claims it. Only tests import it.
//
// Most readers want [Program].
package needs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Claimed reports whether this machine is said to have something.
func Claimed(what string) bool {
	said := strings.FieldsFunc(os.Getenv("CLOISTER_TEST_NEEDS"), func(r rune) bool { return r == ',' || r == ' ' })
	return slices.Contains(said, what)
}

// Missing skips a test, and fails it where the machine claims what is missing.
func Missing(t testing.TB, what string, why error) {
	t.Helper()
	if Claimed(what) {
		t.Fatalf("need %s: this machine claims it: %v", what, why)
	}
	t.Skipf("need %s: %v", what, why)
}

// Program is the path of a program.
func Program(t testing.TB, what, file string) string {
	t.Helper()
	path, err := exec.LookPath(file)
	if err != nil {
		Missing(t, what, err)
	}
	return path
}

// Cloister runs tests that drive the product. It builds the binary unless
// CLOISTER_TEST_BINARY names one: an ordinary user who runs a test binary that root
// built may have neither sources nor modules.
func Cloister(m *testing.M, binary *string) int {
	*binary = os.Getenv("CLOISTER_TEST_BINARY")
	if *binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "cloister")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*binary = filepath.Join(dir, "cloister")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", *binary, "cloister/cmd/cloister")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build cloister: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
