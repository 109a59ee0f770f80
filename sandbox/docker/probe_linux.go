package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"

	"cloister/internal/cgroup"
	"cloister/sandbox"
	"cloister/sandbox/docker/judged"
	"cloister/sandbox/docker/refuse"
)

// info is what of the engine's description counts.
type info struct {
	ServerVersion, CgroupDriver, CgroupVersion, DefaultRuntime, Driver string
	MemoryLimit, PidsLimit, SwapLimit                                  bool
	CPUCfsQuota                                                        bool `json:"CpuCfsQuota"`
	SecurityOptions                                                    []string
	RuncCommit                                                         struct{ ID string }
}

func (i info) has(option string) bool {
	for _, o := range i.SecurityOptions {
		for part := range strings.SplitSeq(o, ",") {
			if part == "name="+option {
				return true
			}
		}
	}
	return false
}

// rootful refuses an engine of another user than root that says it is rootless, before
// it is asked for anything. An engine of root's is not asked: its answer takes longer than a
// part of the start, and each container says what users it has.
func (d *Driver) rootful(ctx context.Context, a *api) error {
	fi, err := os.Stat(d.o.Socket)
	if err != nil {
		return fmt.Errorf("start docker: %w", err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || st.Uid == 0 {
		return nil
	}
	var i info
	if a.call(ctx, http.MethodGet, "/info", nil, &i) == nil && i.mapsUsers() {
		return refuse.Rootless()
	}
	return nil
}

func (i info) mapsUsers() bool { return i.has("rootless") || i.has("userns") }

// Probe asks the engine what it is. Nothing is started: what a start depends on
// is tried in every start, inside the container that the command gets.
func (d *Driver) Probe(ctx context.Context) sandbox.Report {
	r := sandbox.Report{Driver: d.Name()}
	add := func(g sandbox.Guarantee) { r.Guarantees = append(r.Guarantees, g) }

	engine := sandbox.Guarantee{Name: "engine", By: "Docker Engine API at " + d.o.Socket, Needed: true,
		Level: sandbox.Enforced}
	var i info
	a, err := d.connect(ctx)
	if err == nil {
		defer a.Close()
		err = a.call(ctx, http.MethodGet, "/info", nil, &i)
	}
	if err == nil && i.mapsUsers() {
		err = refuse.Rootless()
	}
	if err != nil {
		engine.Level, engine.Evidence = sandbox.Absent, strings.TrimPrefix(err.Error(), "start docker: ")
		if u, ok := errors.AsType[*sandbox.Unsupported](err); ok {
			engine.Evidence, engine.Fix = u.Reason, u.Fix
		}
		add(engine)
		return r
	}
	engine.Evidence = fmt.Sprintf("version %s, API %s, cgroup v%s, runc %.12s", i.ServerVersion,
		strings.TrimPrefix(a.version, "v"), orOne(i.CgroupVersion), i.RuncCommit.ID)
	if a.Podman && !cgroup.Unified() {
		engine.Evidence += "; Podman gives no cgroup namespace here: the group's name is seen inside"
	}
	add(engine)

	own := sandbox.Guarantee{Name: "program inside", By: "this program alone, without libraries", Needed: true,
		Level: sandbox.Enforced}
	if own.Evidence, err = d.program(os.Geteuid() == 0); err != nil {
		own.Level, own.Evidence = sandbox.Absent, err.Error()
		if u, ok := errors.AsType[*sandbox.Unsupported](err); ok {
			own.Evidence, own.Fix = u.Reason, u.Fix
		}
	}
	add(own)

	seccomp := sandbox.Guarantee{Name: "kernel surface",
		By: "our seccomp profile in the engine, and our filter before the command", Level: sandbox.Enforced,
		Evidence: "probe of each start: io_uring, vsock, packet sockets, mount, unshare refused"}
	if !i.has("seccomp") {
		seccomp.Level, seccomp.Evidence = sandbox.Partial, "the engine has no seccomp; our filter alone holds"
		seccomp.Fix = "use an engine that is built with seccomp"
	}
	add(seccomp)
	for _, g := range []sandbox.Guarantee{
		{Name: "file view", By: "the image read-only, our mounts on it, protected paths read-only",
			Evidence: "probe of each start: /, /proc/sys and each protected path"},
		{Name: "no way out but the gate", By: "a network namespace of loopback alone; nftables redirect",
			Evidence: "probe of each start: interfaces, routes"},
		{Name: "no privileges", By: "no capability, no-new-privileges, another user than root",
			Evidence: "probe of each start: all sets read back empty"},
	} {
		g.Level = sandbox.Enforced
		add(g)
	}
	add(judged.Guarantee())
	apparmor := sandbox.Guarantee{Name: "AppArmor", By: "the engine's docker-default on the agent's container",
		Level: sandbox.Enforced, Evidence: "the engine offers it"}
	if !i.has("apparmor") {
		apparmor.Level, apparmor.Evidence = sandbox.Absent, "the engine offers none; nothing else depends on it"
	}
	add(apparmor)
	limits := sandbox.Guarantee{Name: "memory, CPU and process limits", By: "cgroups of the engine",
		Level: sandbox.Enforced, Evidence: "memory, CPU and process limits are offered"}
	if !i.MemoryLimit || !i.CPUCfsQuota || !i.PidsLimit {
		limits.Level, limits.Evidence = sandbox.Partial,
			fmt.Sprintf("memory %v, CPU %v, processes %v", i.MemoryLimit, i.CPUCfsQuota, i.PidsLimit)
		limits.Fix = "boot with the cgroup controllers on (cgroup_enable=memory)"
	}
	add(limits)
	return r
}

func orOne(version string) string {
	if version == "" {
		return "1"
	}
	return version
}
