package native

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"cloister/internal/cgroup"
	"cloister/sandbox"
)

// groupPrefix begins the names of the control groups of an instance's cloisters: the
// sweep of another one, which knows nothing of these sessions, leaves alone what has no
// process yet. A session's id ends the name.
func groupPrefix(instance string) string {
	sum := sha256.Sum256([]byte(instance))
	return "cloister-" + hex.EncodeToString(sum[:4]) + "-"
}

// newGroup bounds one cloister. It is made only for limits that someone asked
// for, and where the kernel judges files: the number of processes is bounded without one (sandbox/plan), and each group
// costs a start several milliseconds. A nil group bounds nothing. within is the user that
// root makes it for, and 0 for oneself: it leads out of no group of that user's.
func newGroup(name string, l sandbox.Limits, judged bool, within int) (*cgroup.Group, error) {
	if l.Memory == 0 && l.CPUs == 0 && !judged {
		return nil, nil
	}
	g, err := cgroup.New(name, cgroup.Bounds{Memory: l.Memory, CPUs: l.CPUs, Within: within, Tree: judged && l.CPUs == 0})
	if err != nil {
		return nil, &sandbox.Unsupported{
			Guarantee: "resource limits", Residue: "cgroup-limits",
			Reason: fmt.Sprintf("start native: limit memory and CPU: %v", err),
			Fix: "have the service manager delegate a cgroup: run under systemd-run --user --scope -p Delegate=yes, or " +
				"as root",
		}
	}
	return g, nil
}
