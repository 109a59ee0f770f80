package gvisor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/gvisor"
	"cloister/sandbox/sandboxtest"
)

// TestNoProgram: without the kernel's program, or with another in its place, nothing is
// started, and it is that program that is said to be wrong, never the command.
func TestNoProgram(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"missing": {func(string) error { return nil }, "is not installed"},
		"alone": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, gvisor.ProgramName), nil, 0o755)
		}, "there is no "},
		"not executable": {func(dir string) error { return pair(dir, "", 0o644) }, "is no program that can be executed"},
		"a folder": {func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, gvisor.ProgramName), 0o755),
				os.WriteFile(filepath.Join(dir, gvisor.FirstName), nil, 0o755))
		}, "is no program that can be executed"},
		"no binary":       {func(dir string) error { return pair(dir, "text", 0o755) }, "cannot be executed: exec format error"},
		"no interpreter":  {func(dir string) error { return pair(dir, "#!/no/such\n", 0o755) }, "cannot be executed: no such file"},
		"another program": {func(dir string) error { return copied(dir) }, "cannot be executed|did not say its version"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := tt.make(dir); err != nil {
				t.Fatal(err)
			}
			h := sandboxtest.New(t, gvisor.New(gvisor.Options{Instance: t.TempDir(), Folders: []string{"", dir}}))
			out := h.Run(t, sandboxtest.Options{}, "touch", "ran")
			u, ok := errors.AsType[*sandbox.Unsupported](out.Err)
			if !ok || u.Fix != "cloister setup gvisor" {
				t.Fatalf("%v, want an error with a way out", out.Err)
			}
			good := false
			for want := range strings.SplitSeq(tt.want, "|") {
				good = good || strings.Contains(u.Reason, want)
			}
			if !good {
				t.Errorf("%q, want %q", u.Reason, tt.want)
			}
			if _, err := os.Stat(filepath.Join(h.Project, "ran")); err == nil {
				t.Error("the command ran")
			}
		})
	}
}

func pair(dir, text string, mode os.FileMode) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, gvisor.ProgramName), []byte(text), mode),
		os.WriteFile(filepath.Join(dir, gvisor.FirstName), []byte(text), mode))
}

// copied puts a program that knows nothing of cloisters in the place of both.
func copied(dir string) error {
	text, err := os.ReadFile("/bin/true")
	if err != nil {
		return err
	}
	return pair(dir, string(text), 0o755)
}

// TestProbe: a host without the program is told how to get it.
func TestProbe(t *testing.T) {
	r := gvisor.New(gvisor.Options{Instance: t.TempDir(), Folders: []string{t.TempDir()}}).Probe(t.Context())
	if !strings.Contains(r.Reason(), "is not installed") || r.Guarantees[0].Fix != "cloister setup gvisor" {
		t.Errorf("%+v", r)
	}
}
