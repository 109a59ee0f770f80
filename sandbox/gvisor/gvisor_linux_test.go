package gvisor_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/gvisor"
	"cloister/sandbox/sandboxtest"
)

// TestConformance holds the driver to what a driver is. It needs the kernel's program,
// which takes minutes to build: the word gvisor of script/test does, and says where it is.
func TestConformance(t *testing.T) {
	dir := os.Getenv("CLOISTER_GVISOR")
	if dir == "" {
		t.Skip("CLOISTER_GVISOR names no folder with " + gvisor.ProgramName + ": script/test gvisor builds it")
	}
	instance := filepath.Join(t.TempDir(), "instance")
	sandboxtest.Run(t, func() sandbox.Driver {
		return gvisor.New(gvisor.Options{Instance: instance, Folders: []string{dir}})
	}, sandboxtest.WatchesInside, sandboxtest.PipesInside, sandboxtest.Niceness)
}
