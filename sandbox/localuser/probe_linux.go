package localuser

import (
	"context"
	"errors"
	"slices"

	"cloister/sandbox"
	"cloister/sandbox/native"
)

// Probe has the helper build a small enclosure.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	r := sandbox.Report{Driver: d.Name()}
	built := sandbox.Guarantee{Name: "enclosure", By: "root's helper: mount, pid, ipc, uts, cgroup and net namespaces",
		Needed: true, Level: sandbox.Enforced, Evidence: "one was built, its probe passed, and it is gone"}
	if err := sandbox.Trial(ctx, d); err != nil {
		built.Level, built.Evidence, built.Fix = sandbox.Absent, err.Error(), "see the checks above"
		if u, ok := errors.AsType[*sandbox.Unsupported](err); ok {
			built.Evidence, built.Fix = u.Reason, u.Fix
		}
	}
	r.Guarantees = append(r.Guarantees, built)
	walls := slices.Insert(native.Walls(), 1, sandbox.Guarantee{Name: "file access (second wall)", By: "Landlock",
		Evidence: "probe: a device cannot be made"})
	for _, g := range append(walls, sandbox.Guarantee{Name: "unprivileged payload",
		By:       "an account of its own and id-mapped mounts; the caller's own where none can be had",
		Evidence: "root builds, with the payload's rights to files from the first step on"}) {
		g.Level = built.Level
		if g.Level != sandbox.Enforced {
			g.Evidence = "not tried: the enclosure could not be built"
		}
		r.Guarantees = append(r.Guarantees, g)
	}
	return r
}
