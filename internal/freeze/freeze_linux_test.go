package freeze_test

import (
	"os"
	"testing"

	"cloister/internal/freeze"
)

// A process that is not the first of a namespace of its own would take the host with it.
func TestOnlyACloisterIsFrozen(t *testing.T) {
	for _, pid := range []int{-1, 0, 1, os.Getpid(), os.Getppid()} {
		if _, err := freeze.Processes(pid); err == nil {
			t.Errorf("process %d was taken for the first of a cloister", pid)
		}
	}
}
