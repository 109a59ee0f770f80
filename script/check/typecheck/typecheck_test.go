package typecheck_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"cloister/script/check/typecheck"
)

// TestTree: a name that one platform does not have is found, and only there.
func TestTree(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"go.mod":      "module x\n\ngo 1.24\n",
		"a.go":        "package x\n\nimport \"io\"\n\nvar A io.Reader = other(1)\n",
		"a_linux.go":  "package x\n\nimport \"io\"\n\nfunc other(int) io.Reader { return nil }\n",
		"a_darwin.go": "package x\n\nimport \"io\"\n\nfunc other(string) io.Reader { return io.LimitReader(nil, 1) }\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(goos string) error {
		c := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json="+typecheck.Packages, "./...")
		c.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=arm64", "CGO_ENABLED=0")
		list, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		return typecheck.Tree(string(list), "arm64")
	}
	if err := check("linux"); err != nil {
		t.Errorf("linux: %v", err)
	}
	if err := check("darwin"); err == nil || !strings.Contains(err.Error(), "a.go:5:") {
		t.Errorf("darwin: %v", err)
	}
}
