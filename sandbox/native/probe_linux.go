package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"cloister/internal/cgroup"
	"cloister/sandbox"
	"cloister/sandbox/judge"
	"cloister/sandbox/landlock"
	"cloister/sandbox/plan"
	"cloister/sandbox/seccomp"
)

// Walls are the guarantees of an enclosure that its probe, once passed, shows: whoever builds
// it, root's helper or this user.
func Walls() []sandbox.Guarantee {
	return []sandbox.Guarantee{
		{Name: "file view", By: "mount namespace on a tmpfs root; protected paths read-only",
			Evidence: "probe: / and /usr refuse writing"},
		{Name: "no way out but the gate", By: "network namespace without an interface; nftables redirect",
			Evidence: "gate sockets were made inside and handed out"},
		{Name: "kernel surface", By: fmt.Sprintf("seccomp, %d calls allowed", len(seccomp.Allowed)),
			Evidence: "probe: io_uring, vsock, packet sockets, mount, unshare refused"},
		{Name: "no privileges", By: "empty capability sets, no_new_privs, locked securebits",
			Evidence: "probe: all sets read back empty"},
	}
}

// Probe builds a small enclosure and looks at what it could keep. Nothing is
// believed from a version number alone: the enclosure is started.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	r := sandbox.Report{Driver: d.Name()}
	add := func(g sandbox.Guarantee) { r.Guarantees = append(r.Guarantees, g) }

	abi := landlockVersion()
	files := sandbox.Guarantee{Name: "file access (second wall)", By: "Landlock", Needed: true, Level: sandbox.Enforced,
		Evidence: fmt.Sprintf("ABI %d", abi)}
	switch {
	case abi < landlock.Least:
		files.Level, files.Fix = sandbox.Absent,
			"use Linux 6.10 or newer with landlock among its security modules (lsm=landlock,…)"
		files.Evidence = fmt.Sprintf("the kernel offers ABI %d, %d is needed", abi, landlock.Least)
	case abi < 6:
		files.Level, files.Fix = sandbox.Partial,
			"Linux 6.12 adds the scope of signals and abstract sockets; the process and network namespaces hold these alone"
	}
	add(files)

	err := sandbox.Trial(ctx, d)
	built := sandbox.Guarantee{Name: "enclosure", By: "user, mount, pid, ipc, uts, cgroup and net namespaces",
		Needed: true, Level: sandbox.Enforced, Evidence: "one was built, its probe passed, and it is gone"}
	if err != nil {
		built.Level, built.Evidence, built.Fix = sandbox.Absent, err.Error(), "see the checks above"
		var u *sandbox.Unsupported
		if errors.As(err, &u) && u.Fix != "" {
			built.Fix = u.Fix
		}
	}
	level := built.Level
	add(built)
	for _, g := range append(Walls(), []sandbox.Guarantee{
		{Name: "process limit", By: "RLIMIT_NPROC in the cloister's own user namespace",
			Evidence: strconv.Itoa(plan.DefaultPids) + " unless said"},
	}...) {
		g.Level = level
		if level != sandbox.Enforced {
			g.Evidence = "not tried: the enclosure could not be built"
		}
		add(g)
	}
	add(limitsGuarantee())
	byObject, lists := judgeGuarantees(abi)
	add(byObject)
	add(lists)
	if os.Geteuid() == 0 {
		add(sandbox.Guarantee{Name: "unprivileged payload", By: "own id of a reserved range, id-mapped mounts", Level: level,
			Evidence: "root starts it; the payload is no user of this host"})
	} else {
		g := sandbox.Guarantee{Name: "unprivileged payload", By: "own user namespace, one id", Level: level,
			Evidence: "uid " + strconv.Itoa(os.Geteuid())}
		if groups, err := os.Getgroups(); err == nil && len(groups) > 1 {
			g.Level = min(level, sandbox.Partial)
			g.Evidence += fmt.Sprintf("; the kernel keeps %d supplementary groups for files in the view", len(groups))
		}
		add(g)
	}
	return r
}

// judgeGuarantees are about statements of files and programs: which tier keeps them here, and what
// would raise it.
func judgeGuarantees(abi int) (byObject, lists sandbox.Guarantee) {
	lists = sandbox.Guarantee{Name: "lists of files and programs", By: "BPF LSM"}
	err := judge.Available()
	byObject = judge.Guarantee(err)
	if err == nil {
		if os.Geteuid() != 0 {
			byObject.Evidence = "root's service attaches the programs (cloister lsm status)"
		}
		lists.Level, lists.Evidence = sandbox.Enforced, "the same programs; a reload changes them while a cloister runs"
		return byObject, lists
	}
	lists.By, lists.Level, lists.Fix = "Landlock", sandbox.Partial, byObject.Fix
	lists.Evidence = "names and attributes are seen, a loader runs what may be read; a reload waits for the next cloister"
	if abi < landlock.Least {
		lists.Level, lists.Evidence = sandbox.Absent, "no Landlock that keeps them"
	}
	return byObject, lists
}

func limitsGuarantee() sandbox.Guarantee {
	g := sandbox.Guarantee{Name: "memory and CPU limits", By: "cgroups",
		Fix: "have the service manager delegate a cgroup (systemd-run --user --scope -p Delegate=yes), or run as root"}
	c, err := newGroup("probe-cloister-"+strconv.Itoa(os.Getpid()), sandbox.Limits{Memory: 64 << 20, CPUs: 1}, false, 0)
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		g.Evidence = err.Error()
		return g
	}
	g.Level, g.Evidence, g.Fix = sandbox.Enforced, "a group was made and removed", ""
	return g
}

// Leftovers lists what crashed sessions of an instance left on the host that carries
// no living session's id, and removes it. The kernel removes all else with the processes.
func Leftovers(instance string, alive func(id string) bool) error {
	prefix := groupPrefix(instance)
	return cgroup.Prune(prefix, func(name string) bool { return alive(strings.TrimPrefix(name, prefix)) })
}
