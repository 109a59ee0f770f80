package native

import (
	"fmt"

	"cloister/internal/cgroup"
	"cloister/sandbox"
)

// groupPrefix begins the names of cloisters' control groups.
const groupPrefix = "cloister-"

// newGroup bounds one cloister. It is made only for limits that somebody asked
// for: the number of processes is bounded without one (buildLimits), and each group
// costs a start several milliseconds. A nil group bounds nothing.
func newGroup(id string, l sandbox.Limits) (*cgroup.Group, error) {
	if l.Memory == 0 && l.CPUs == 0 {
		return nil, nil
	}
	g, err := cgroup.New(groupPrefix+id, cgroup.Bounds{Memory: l.Memory, CPUs: l.CPUs})
	if err != nil {
		return nil, &sandbox.Unsupported{
			Guarantee: "resource limits", Residue: "cgroup-limits",
			Reason: fmt.Sprintf("start native: limit memory and CPU: %v", err),
			Fix:    "have the service manager delegate a cgroup: run under systemd-run --user --scope -p Delegate=yes, or as root",
		}
	}
	return g, nil
}
