package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/docker/engine"
	"cloister/sandbox/docker/inside"
	"cloister/sandbox/onhost"
	"cloister/sandbox/plan"
	"cloister/sandbox/seccomp"
)

// object is a part of a request's body.
type object = map[string]any

// withIPv6 lets the gate route it: engines switch it off where they connect nothing.
var withIPv6 = map[string]string{"net.ipv6.conf.all.disable_ipv6": "0", "net.ipv6.conf.lo.disable_ipv6": "0"}

// ownThreads are those of the first process, which count as well.
const ownThreads = 12

// What is called NetworkDisabled is a network namespace of the container's own that
// no one but it knows. With NetworkMode alone the engine would look after it by a
// program of its own in each start, which takes longer than all the rest of one
// (154 and 74 ms, Engine 20.10); the mode stays for engines that know no other word.
// Every start compares the namespaces with this machine's.

// agentContainer is the container that the command runs in. What an image says
// about how to be run is replaced, and its volumes are taken away by the gate.
func (d *Driver) agentContainer(s sandbox.Spec, image, program string, o *doors, u inside.User) (object, error) {
	profile, err := seccompProfile()
	if err != nil {
		return nil, err
	}
	mounts := []object{
		{"Type": "bind", "Source": program, "Target": inside.Program, "ReadOnly": true},
		{"Type": "bind", "Source": o.dir + "/" + doorInit, "Target": inside.Door, "ReadOnly": true},
	}
	shown, memory := engineMounts(s)
	host := object{
		"NetworkMode": "none", "IpcMode": "private", "CgroupnsMode": "private",
		"ReadonlyRootfs": true, "CapDrop": []string{"ALL"}, "Privileged": false,
		"SecurityOpt": []string{"no-new-privileges", "seccomp=" + profile},
		"MaskedPaths": inside.MaskedPaths(), "ReadonlyPaths": plan.ReadOnly(),
		"PidsLimit": maxPids(s), "Mounts": append(mounts, shown...), "Tmpfs": memory,
		"Ulimits": ulimits(), "OomScoreAdj": onhost.Sooner(),
		"Sysctls": withIPv6,
		// What a container says is no one's: the command has the caller's descriptors.
		// Nor has the engine to remove it (AutoRemove): who made it does, or a sweep.
		"LogConfig": object{"Type": "none"},
	}
	if s.Limits.Memory > 0 {
		host["Memory"], host["MemorySwap"] = s.Limits.Memory, s.Limits.Memory
	}
	if s.Limits.CPUs > 0 {
		host["NanoCpus"] = int64(math.Round(s.Limits.CPUs * 1e9))
	}
	return inside.LeaveOut(object{
		"Image": image, "Entrypoint": []string{inside.Program}, "Cmd": []string{inside.RoleInit}, "WorkingDir": "/",
		"User": strconv.Itoa(u.UID) + ":" + strconv.Itoa(u.GID), "Healthcheck": object{"Test": []string{"NONE"}},
		"Labels": d.labels(s, inside.RoleInit), "HostConfig": host, "NetworkDisabled": true,
	}), nil
}

// engineMounts is what the engine does of a plan: it finds the host's files, and makes memory,
// which the gate finishes.
func engineMounts(s sandbox.Spec) (shown []object, memory map[string]string) {
	memory = map[string]string{}
	p := plan.New(plan.Facts{Base: plan.OnEngine})
	for _, one := range append(p.Ground(), p.Rest(s)...) {
		switch step := one.(type) {
		case plan.Bind:
			shown = append(shown, object{"Type": "bind", "Source": string(step.Source), "Target": string(step.Target),
				"ReadOnly": step.Access == sandbox.ReadOnly || step.Overlay})
		case plan.Memory:
			memory[step.Path] = "rw,exec,nosuid,nodev,mode=1777,size=25%"
		default: // the gate's
		}
	}
	return shown, memory
}

// maxPids bounds processes and threads.
func maxPids(s sandbox.Spec) int64 { return plan.Pids(s.Limits) + ownThreads }

func ulimits() (out []object) {
	for _, l := range plan.Limits() {
		out = append(out, ulimit(l.Name, int64(l.Hard)))
	}
	return out
}

func ulimit(name string, n int64) object { return object{"Name": name, "Soft": n, "Hard": n} }

// gateContainer holds nothing but the program: it enters the agent's namespaces by
// descriptors, so it needs to see none of them.
func (d *Driver) gateContainer(s sandbox.Spec, program string, o *doors) object {
	// Sockets below 1024, routes and packet rules; entering namespaces and
	// mounting; making files in the root of an image, and a way through its
	// folders, whoever owns them.
	powers := []string{"NET_ADMIN", "NET_BIND_SERVICE", "SYS_ADMIN", "SYS_CHROOT", "DAC_OVERRIDE", "FOWNER"}
	mounts := []object{
		{"Type": "bind", "Source": program, "Target": inside.Program, "ReadOnly": true},
		{"Type": "bind", "Source": o.dir + "/" + doorGate, "Target": inside.Door, "ReadOnly": true},
	}
	for _, store := range stores(s) {
		mounts = append(mounts,
			object{"Type": "bind", "Source": string(store), "Target": storeAt(s, store), "ReadOnly": false})
	}
	if slices.ContainsFunc(s.Binds, func(b sandbox.Bind) bool { return b.Overlay }) {
		powers = append(powers, "SETUID", "SETGID") // an overlay works as the payload's user
	}
	return object{
		"Image": gateImage, "Entrypoint": []string{inside.Program}, "Cmd": []string{inside.RoleGate}, "WorkingDir": "/",
		"User":   "0:0",
		"Labels": d.labels(s, inside.RoleGate), "NetworkDisabled": true,
		"HostConfig": object{
			"NetworkMode": "none", "IpcMode": "none", "CgroupnsMode": "private", "ReadonlyRootfs": true, "PidsLimit": 64,
			"CapDrop": []string{"ALL"}, "CapAdd": powers,
			// Its profiles forbid mounting, whatever the capabilities.
			"SecurityOpt": []string{"no-new-privileges", "seccomp=unconfined", "apparmor=unconfined"},
			"Mounts":      mounts,
			"LogConfig":   object{"Type": "none"},
		},
	}
}

// stores are the folders in which overlays keep what is written.
func stores(s sandbox.Spec) (out []sandbox.HostPath) {
	for _, b := range s.Binds {
		if b.Overlay && b.Upper != nil && !slices.Contains(out, b.Upper.Store) {
			out = append(out, b.Upper.Store)
		}
	}
	return out
}

// storeAt is where the gate's container has one of them.
func storeAt(s sandbox.Spec, store sandbox.HostPath) string {
	return inside.Store + strconv.Itoa(slices.Index(stores(s), store))
}

func (d *Driver) labels(s sandbox.Spec, role string) map[string]string {
	return map[string]string{labelInstance: d.instance(), labelSession: s.ID, labelName: s.Name, labelRole: role}
}

func containerName(s sandbox.Spec, role string) string {
	return "cloister-" + short(s.ID) + "-" + role
}

// seccompProfile is our list for the engine to install: the daemon's own may be
// as old as the daemon. What arguments may be, the filter says that the payload
// puts itself behind.
func seccompProfile() (string, error) {
	names := func(list []seccomp.Call) []string {
		var out []string
		for _, c := range list {
			out = append(out, c.Name)
		}
		return out
	}
	const nosys = 38
	rules := []object{
		{"names": names(seccomp.Allowed), "action": "SCMP_ACT_ALLOW"},
		{"names": names(seccomp.Tracing), "action": "SCMP_ACT_ALLOW"},
		{"names": names(seccomp.Absent), "action": "SCMP_ACT_ERRNO", "errnoRet": nosys},
	}
	for _, c := range seccomp.Judged() {
		rule := func(args ...object) {
			rules = append(rules, object{"names": []string{c.Name}, "action": "SCMP_ACT_ALLOW", "args": args})
		}
		switch c.Name {
		case "socket":
			for _, family := range []int{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
				rule(object{"index": 0, "value": family, "op": "SCMP_CMP_EQ"})
			}
		case "clone", "unshare":
			rule(object{"index": 0, "value": seccomp.NamespaceFlags, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"})
		case "mknod", "mknodat":
			// The kernel lets everybody make the device 0:0, which overlays read as
			// "deleted"; natively Landlock refuses it. The bit is a character
			// device's and a disk's (inode(7)).
			mode := map[string]int{"mknod": 1, "mknodat": 2}[c.Name]
			rule(object{"index": mode, "value": unix.S_IFCHR, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"})
		default:
			rule()
		}
	}
	text, err := json.Marshal(object{"defaultAction": "SCMP_ACT_ERRNO", "architectures": []string{seccompArch},
		"syscalls": rules})
	if err != nil {
		return "", fmt.Errorf("write the seccomp profile: %w", err)
	}
	return string(text), nil
}

// ownBounds are this process's own of open files and processes: Podman asks for a
// million of each, which a machine with lower ones refuses.
func ownBounds(body object) error {
	host := body["HostConfig"].(object)
	limits, _ := host["Ulimits"].([]object)
	for name, resource := range map[string]int{"nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC} {
		var own unix.Rlimit
		if err := unix.Getrlimit(resource, &own); err != nil {
			return fmt.Errorf("look at the bound of %s: %w", name, err)
		}
		limits = append(limits, ulimit(name, int64(min(own.Max, 1<<15))))
	}
	host["Ulimits"] = limits
	return nil
}

// profileAsFile has a container's seccomp profile read from a file: Podman takes the
// option for a path, which it opens before the container is there.
func profileAsFile(body object, file string) error {
	options := body["HostConfig"].(object)["SecurityOpt"].([]string)
	for i, o := range options {
		text, ok := strings.CutPrefix(o, "seccomp=")
		if !ok {
			continue
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the seccomp profile: %w", err)
		}
		options[i] = "seccomp=" + file
	}
	return nil
}

// created is the engine's answer to a new container.
type created struct {
	ID       string   `json:"Id"`
	Warnings []string `json:"Warnings"`
}

// create makes a container. What the engine warns of is a limit that it does not
// keep.
func (a *api) create(ctx context.Context, s sandbox.Spec, role string, body object) (string, error) {
	var c created
	if a.Podman {
		if err := ownBounds(body); err != nil {
			return "", err
		}
	}
	// An engine goes on creating for a caller that gave up, and no one would know
	// the container: its answer is waited for, as long as any.
	ctx = context.WithoutCancel(ctx)
	path := "/containers/create?name=" + url.QueryEscape(containerName(s, role))
	if err := a.call(ctx, http.MethodPost, path, body, &c); err != nil {
		_, refused := errors.AsType[*engine.Error](err)
		if _, unasked := errors.AsType[*engine.Unasked](err); refused || unasked {
			return "", err
		}
		return "", &unsureError{err}
	}
	for _, w := range c.Warnings {
		lower := strings.ToLower(w)
		if strings.Contains(lower, "swap") && strings.Contains(lower, "memory limited without swap") {
			continue // memory is bounded; swap is not accounted here
		}
		return c.ID, &sandbox.Unsupported{Guarantee: "resource limits", Reason: "the engine says: " + w,
			Fix: "see docker info, or leave the limit away", Residue: "cgroup-limits"}
	}
	return c.ID, nil
}

// unsureError is the end of a wait for a container that the engine may still make:
// it took too long, or the connection broke.
type unsureError struct{ error }

func (e *unsureError) Unwrap() error { return e.error }

func (a *api) start(ctx context.Context, id string) error {
	return a.call(ctx, http.MethodPost, "/containers/"+id+"/start", nil, nil)
}

// remove ends a container and returns when it is gone. That it is gone already is
// no error, and neither is that the engine is just removing it.
func (a *api) remove(ctx context.Context, id string) error {
	_, err := a.removeIfThere(ctx, id)
	return err
}

// removeIfThere tells besides whether the engine knew the container. One that it is
// just making it lists, and does not know yet.
func (a *api) removeIfThere(ctx context.Context, id string) (known bool, err error) {
	for began := time.Now(); ; {
		err = a.call(ctx, http.MethodDelete, "/containers/"+id+"?force=1&v=1", nil, nil)
		switch {
		case err == nil:
			return true, nil
		case engine.IsStatus(err, http.StatusNotFound):
			return known, nil
		case engine.IsStatus(err, http.StatusConflict):
			// Someone else removes it, and may fail: what the wait says is not enough.
			known = true
			if werr := a.call(ctx, http.MethodPost, "/containers/"+id+"/wait?condition=removed", nil, nil); werr != nil &&
				!engine.IsStatus(werr, http.StatusNotFound) {
				return true, fmt.Errorf("remove container: %w", werr)
			}
		}
		// An engine fails while a container is just ending by itself: Podman always,
		// Docker once in a thousand runs of a busy machine.
		again := engine.IsStatus(err, http.StatusConflict) || engine.IsStatus(err, http.StatusInternalServerError)
		if !again || time.Since(began) > engine.AnswerWithin {
			return true, fmt.Errorf("remove container: %w", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// state tells how a container ended, where the engine knows.
func (a *api) state(ctx context.Context, id string) string {
	text, _ := a.over(ctx, id)
	return text
}

// over reports whether a container has ended, and how.
func (a *api) over(ctx context.Context, id string) (text string, ended bool) {
	var c struct {
		State struct {
			Status    string
			Error     string
			OOMKilled bool
			ExitCode  int
		}
	}
	if err := a.call(ctx, http.MethodGet, "/containers/"+id+"/json", nil, &c); err != nil {
		if engine.IsStatus(err, http.StatusNotFound) {
			return "it is gone", true
		}
		_, refused := errors.AsType[*engine.Error](err)
		return err.Error(), !refused
	}
	return endText(c.State.Error, c.State.OOMKilled, c.State.ExitCode),
		c.State.Status == "exited" || c.State.Status == "dead"
}

func endText(failure string, outOfMemory bool, status int) string {
	switch {
	case failure != "":
		return failure
	case outOfMemory:
		return "it was out of memory"
	}
	return "exit status " + strconv.Itoa(status)
}
