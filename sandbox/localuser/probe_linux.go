package localuser

import (
	"context"
	"errors"
	"fmt"

	"cloister/sandbox"
	"cloister/sandbox/seccomp"
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
	for _, g := range []sandbox.Guarantee{
		{Name: "file view", By: "mount namespace on a tmpfs root; protected paths read-only",
			Evidence: "probe: / and /usr refuse writing"},
		{Name: "file access (second wall)", By: "Landlock", Evidence: "probe: a device cannot be made"},
		{Name: "no way out but the gate", By: "network namespace without an interface; nftables redirect",
			Evidence: "gate sockets were made inside and handed out"},
		{Name: "kernel surface", By: fmt.Sprintf("seccomp, %d calls allowed", len(seccomp.Allowed)),
			Evidence: "probe: io_uring, vsock, packet sockets, mount, unshare refused"},
		{Name: "no privileges", By: "empty capability sets, no_new_privs, locked securebits",
			Evidence: "probe: all sets read back empty"},
		{Name: "unprivileged payload",
			By:       "an account of its own and id-mapped mounts; the caller's own where none can be had",
			Evidence: "root builds, with the payload's rights to files from the first step on"},
	} {
		g.Level = built.Level
		if g.Level != sandbox.Enforced {
			g.Evidence = "not tried: the enclosure could not be built"
		}
		r.Guarantees = append(r.Guarantees, g)
	}
	return r
}
