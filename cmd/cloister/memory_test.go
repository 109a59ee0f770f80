package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestGVisorMemory tells the stories of kept memories, which are of the gvisor level alone.
func TestGVisorMemory(t *testing.T) {
	kernel := os.Getenv("CLOISTER_GVISOR")
	if kernel == "" {
		t.Skip("CLOISTER_GVISOR names no folder with the kernel's program: script/test gvisor builds it")
	}
	p := stories(t, true)
	p.Dir = ""
	files, err := filepath.Glob("testdata/memory/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	p.Files = files
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("PATH", e.Getenv("PATH")+string(filepath.ListSeparator)+kernel)
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(e.WorkDir, "gen.go"), "./testdata/memory/draws")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return setUpStory(e)
	}
	testscript.Run(t, p)
}
