package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain is the program itself where it is asked for, and where the program calls
// itself: by a word that is no flag, such as victim.
func TestMain(m *testing.M) {
	if os.Getenv("ESCAPE_TEST_MAIN") != "" || len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// What a stranger types wrong is told in one line with a hint, and nothing is
// tried; what cannot run the corpus says why and leaves no world behind.
func TestWordsAreAnswered(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "broken"), []byte("#!/nowhere/at/all\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Beside this program there may be a cloister.
	alone := filepath.Join(dir, "alone")
	program, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(alone, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	worlds, err := os.MkdirTemp("/var/tmp", "escape-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(worlds); err != nil {
			t.Errorf("a world was left behind: %v", err)
		}
	})
	for _, tt := range []struct {
		name   string
		words  []string
		status int
		says   string
	}{
		{"help", []string{"-h"}, 0, "Usage: cloister-escape"},
		{"a part of none", []string{"-cloister", "./broken", "-part", "3/2"}, 2, `-part is "3/2": it is N/OF`},
		{"a relative path that is not there", []string{"-cloister", "./absent"}, 2, "/absent is not there"},
		{"no program", []string{"-cloister", "./text"}, 2, "/text is no program"},
		{"a folder", []string{"-cloister", "."}, 2, "is no program"},
		{"one that does not start", []string{"-cloister", "./broken", "-dir", worlds, "-run", "^FS-04$"}, 1, "start guardian: "},
		{"no binary at all", nil, 2, "-cloister BINARY"},
		{"a word without a flag", []string{"./broken"}, 2, "is no flag"},
		{"an unknown flag", []string{"-cloisters", "x"}, 2, "not defined: -cloisters"},
		{"no such case", []string{"-cloister", "./broken", "-run", "^XX-99$"}, 2, "no case matches"},
		{"a pattern that is none", []string{"-cloister", "./broken", "-run", "("}, 2, "-run: "},
		{"worlds in /tmp", []string{"-cloister", "./broken", "-dir", "/tmp"}, 2, "below /tmp"},
		{"worlds nowhere", []string{"-cloister", "./broken", "-dir", "/nowhere/at/all"}, 2, "-dir: "},
		{"another isolation", []string{"-cloister", "./broken", "-isolation", "jail"}, 2, "want one of native, user, docker, gvisor, microvm"},
		{"a machine without its kernel", []string{"-cloister", "./broken", "-isolation", "microvm"}, 2, "belong together"},
		{"the word of the process apart", []string{"apart", "-cloister", "./broken", "-dir", worlds}, 2, "apart is this program's own word"},
		{"layers without their binary", []string{"-cloister", "./broken", "-layers"}, 2, "-layers needs -off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program, path := self, os.Getenv("PATH")
			if tt.words == nil {
				program, path = alone, "/nowhere" // there may be one on PATH too
			}
			c := exec.CommandContext(t.Context(), program, tt.words...)
			c.Dir = dir
			c.Env = []string{"ESCAPE_TEST_MAIN=1", "PATH=" + path, "HOME=" + dir}
			out, err := c.CombinedOutput()
			status := 0
			if e, ok := errors.AsType[*exec.ExitError](err); ok {
				status = e.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if status != tt.status || !strings.Contains(string(out), tt.says) || strings.Contains(string(out), "goroutine ") {
				t.Errorf("status %d, want %d; it should say %q and says:\n%s", status, tt.status, tt.says, out)
			}
		})
	}
}
