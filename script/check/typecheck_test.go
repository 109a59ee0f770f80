package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTypecheck: a name that one platform does not have is found, and only there.
func TestTypecheck(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod":      "module x\n\ngo 1.24\n",
		"a.go":        "package x\n\nimport \"net/http\"\n\nvar A http.Handler = other(1)\n",
		"a_linux.go":  "package x\n\nimport \"net/http\"\n\nfunc other(int) http.Handler { return nil }\n",
		"a_darwin.go": "package x\n\nimport \"net/http\"\n\nfunc other(string) http.Handler { return http.NotFoundHandler() }\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Fatal(err)
	}
	r := &runner{counts: &counts{ctx: t.Context()}, machine: &machine{}}
	if err := r.typecheck("linux", "arm64"); err != nil {
		t.Errorf("linux: %v", err)
	}
	if err := r.typecheck("darwin", "arm64"); err == nil || !strings.Contains(err.Error(), "a.go:5:") {
		t.Errorf("darwin: %v", err)
	}
}
