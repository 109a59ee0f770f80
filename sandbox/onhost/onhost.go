// Package onhost is what drivers share whose boxes are processes of this host.
//
// The promise: a handle is the number of the first process, and one that no such driver has
// given is refused. It does not say whether that process lives, or whose it is.
//
// Most readers want [Handle] and [Hold].
package onhost

import (
	"fmt"
	"strconv"

	"cloister/internal/freeze"
	"cloister/sandbox"
)

// Handle is that of the box whose first process is pid.
func Handle(pid int) sandbox.Handle { return sandbox.Handle(strconv.Itoa(pid)) }

// Process is the number of the first process of a box.
func Process(h sandbox.Handle) (int, error) {
	pid, err := strconv.Atoi(string(h))
	if err != nil || pid <= 1 {
		return 0, fmt.Errorf("find the cloister's first process: %q is no handle of a driver of this host", string(h))
	}
	return pid, nil
}

// Hold stops all processes of a box but the first, until thaw.
func Hold(h sandbox.Handle) (thaw func() error, err error) {
	pid, err := Process(h)
	if err != nil {
		return nil, err
	}
	return freeze.Processes(pid)
}
