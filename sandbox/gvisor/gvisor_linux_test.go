package gvisor_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/gvisor"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/tools"
)

// TestConformance holds the driver to what a driver is. It needs the kernel's program,
// which takes minutes to build: the word gvisor of script/test does, and says where it is.
func TestConformance(t *testing.T) {
	sandboxtest.Run(t, built(t), sandboxtest.WatchesInside, sandboxtest.PipesInside, sandboxtest.Niceness)
}

// TestTools holds docs/tools.md to what the tools of this machine do on this level.
func TestTools(t *testing.T) {
	tools.Hold(t, tools.Level{Name: "gvisor", Document: "../../docs/tools.md", Root: "/", Run: sandboxtest.Script(built(t))})
}

// built gives drivers with the kernel's program that was built for tests.
func built(t *testing.T) func() sandbox.Driver {
	t.Helper()
	dir := os.Getenv("CLOISTER_GVISOR")
	if dir == "" {
		t.Skip("CLOISTER_GVISOR names no folder with " + gvisor.ProgramName + ": script/test gvisor builds it")
	}
	instance := filepath.Join(t.TempDir(), "instance")
	return func() sandbox.Driver {
		return gvisor.New(gvisor.Options{Instance: instance, Folders: []string{dir}})
	}
}
