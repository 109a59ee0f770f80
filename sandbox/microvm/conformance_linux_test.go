package microvm_test

import (
	"testing"

	"cloister/sandbox/sandboxtest"
)

// TestConformance holds the driver to what a driver is: a machine, from a template, for each run of a case.
func TestConformance(t *testing.T) {
	sandboxtest.Run(t, ready(t), sandboxtest.WatchesInside, sandboxtest.PipesInside,
		sandboxtest.InputOnce)
}
