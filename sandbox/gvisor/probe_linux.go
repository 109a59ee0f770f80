package gvisor

import (
	"context"
	"errors"

	"cloister/sandbox"
)

// Probe looks for the kernel's program and starts a box with it.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	r := sandbox.Report{Driver: d.Name()}
	program, err := d.program()
	if err == nil {
		err = sandbox.Trial(ctx, d)
	}
	g := sandbox.Guarantee{Name: "a kernel of its own", By: "gVisor " + Pin, Needed: true, Level: sandbox.Enforced,
		Evidence: "a box was started with " + program + ", and it is gone"}
	if err != nil {
		g.Level, g.Evidence, g.Fix = sandbox.Absent, err.Error(), "cloister doctor says what native lacks"
		if u, ok := errors.AsType[*sandbox.Unsupported](err); ok {
			g.Evidence, g.Fix = u.Reason, u.Fix
		}
	}
	level := g.Level
	r.Guarantees = append(r.Guarantees, g)
	for _, g := range []sandbox.Guarantee{
		{Name: "file view", By: "native's mounts, shown by a process of their own", Evidence: "as native's"},
		{Name: "no way out but the gate", By: "network namespace without an interface; nftables redirect",
			Evidence: "gate sockets were made inside and handed out"},
		{Name: "kernel surface", By: "system calls end in gVisor; of the host's it makes those of its own filter",
			Evidence: "the box's command ran on it"},
	} {
		if g.Level = level; level != sandbox.Enforced {
			g.Evidence = "not tried: no box could be started"
		}
		r.Guarantees = append(r.Guarantees, g)
	}
	return r
}
