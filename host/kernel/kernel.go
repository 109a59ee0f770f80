// Package kernel reads which features of the host's kernel an enclosure can
// build on, so that doctor can explain a refusal before it happens.
//
// It promises that every finding names what was read, where, and what would
// change it. It changes nothing, builds nothing, and a good report is no
// guarantee: the drivers' own probes build an enclosure and look.
// Most readers want Checks.
package kernel

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Status is how a finding bears on a start.
type Status string

// The statuses, from good to bad.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is one finding.
type Check struct {
	ID     string
	Title  string
	Status Status
	Detail string
	Fix    string
}

// Host is where findings are read: the root of the host's file system, and what
// the running kernel answered to the questions that no file tells.
type Host struct {
	FS       fs.FS // its /
	Release  string
	Landlock int // ABI; 0 for none
	Root     bool
}

// Checks are all findings about a host, in the order in which they are read.
func Checks(h Host) []Check {
	out := []Check{h.release(), h.landlock(), h.userNamespaces(), h.appArmor(), h.seccomp()}
	for _, s := range sysctls {
		if c, ok := h.sysctl(s); ok {
			out = append(out, c)
		}
	}
	return append(out, h.corePattern())
}

// read gives a file's first line; ok is false where there is no such file.
func (h Host) read(path string) (string, bool) {
	b, err := fs.ReadFile(h.FS, strings.TrimPrefix(path, "/"))
	if err != nil {
		return "", false
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line), true
}

func (h Host) release() Check {
	c := Check{ID: "kernel", Title: "Linux kernel", Status: OK, Detail: h.Release}
	major, rest, _ := strings.Cut(h.Release, ".")
	minor := rest
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		minor = rest[:i]
	}
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	switch {
	case errA != nil || errB != nil:
		c.Status, c.Detail = Warn, "unknown release "+strconv.Quote(h.Release)
	case a < 5 || a == 5 && b < 14:
		c.Status, c.Fix = Fail, "use Linux 5.14 or newer: id-mapped mounts and process limits per user namespace need it"
	}
	return c
}

func (h Host) landlock() Check {
	c := Check{ID: "landlock", Title: "Landlock", Status: OK, Detail: fmt.Sprintf("ABI %d", h.Landlock)}
	switch {
	case h.Landlock == 0:
		c.Status, c.Detail = Fail, "absent"
		c.Fix = "boot with landlock among the security modules (lsm=landlock,…), on Linux 6.10 or newer"
	case h.Landlock < 5:
		c.Status, c.Fix = Fail, "use Linux 6.10 or newer (ABI 5)"
	case h.Landlock < 6:
		c.Status, c.Fix = Warn, "Linux 6.12 (ABI 6) adds the scope of signals and abstract sockets"
	}
	return c
}

func (h Host) userNamespaces() Check {
	c := Check{ID: "userns", Title: "User namespaces", Status: OK, Detail: "open to this user"}
	if v, ok := h.read("/proc/sys/kernel/unprivileged_userns_clone"); ok && v == "0" && !h.Root {
		c.Status, c.Detail, c.Fix = Fail, "kernel.unprivileged_userns_clone = 0",
			"sudo sysctl -w kernel.unprivileged_userns_clone=1"
		return c
	}
	for _, kind := range []string{"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"} {
		key := "user/max_" + kind + "_namespaces"
		v, ok := h.read("/proc/sys/" + key)
		if !ok {
			c.Status, c.Detail = Fail, kind+" namespaces are not built into this kernel"
			c.Fix = "use a kernel with namespaces (CONFIG_" + strings.ToUpper(kind) + "_NS)"
			return c
		}
		if v == "0" {
			name := strings.ReplaceAll(key, "/", ".")
			c.Status, c.Detail, c.Fix = Fail, name+" = 0", "sudo sysctl -w "+name+"=10000"
			return c
		}
	}
	return c
}

// appArmor explains Ubuntu 23.10 and newer: there a program needs a profile to
// use the user namespaces that it may make.
func (h Host) appArmor() Check {
	c := Check{ID: "apparmor-userns", Title: "AppArmor and user namespaces", Status: OK, Detail: "no restriction"}
	v, ok := h.read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
	if !ok || v == "0" || h.Root {
		return c
	}
	if _, err := fs.Stat(h.FS, "etc/apparmor.d/cloister"); err == nil {
		c.Detail = "restricted, with a profile for cloister"
		return c
	}
	c.Status = Fail
	c.Detail = "kernel.apparmor_restrict_unprivileged_userns = " + v + " and no profile for cloister"
	c.Fix = "install a profile that says 'userns,' for the path of this binary as /etc/apparmor.d/cloister and reload " +
		"it with apparmor_parser -r; or sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	return c
}

func (h Host) seccomp() Check {
	c := Check{ID: "seccomp", Title: "seccomp filters", Status: OK, Detail: "available"}
	v, ok := h.read("/proc/sys/kernel/seccomp/actions_avail")
	if !ok || !strings.Contains(v, "kill_process") || !strings.Contains(v, "errno") {
		c.Status, c.Detail, c.Fix = Fail, "absent", "use a kernel with CONFIG_SECCOMP_FILTER"
	}
	return c
}

// sysctl is a host setting that hardens what an enclosure shares with the host.
type sysctl struct {
	key  string
	want string // the words of the advice
	good func(v int) bool
	why  string
}

func atLeast(n int) func(int) bool { return func(v int) bool { return v >= n } }
func exactly(n int) func(int) bool { return func(v int) bool { return v == n } }

// sysctls are HARDENING 5.1's. None is needed: the enclosure's own walls cover
// each, and these take the surface away underneath.
var sysctls = []sysctl{
	{"kernel.unprivileged_bpf_disabled", "1", atLeast(1), "the bpf system call stays with root"},
	{"kernel.yama.ptrace_scope", "1", atLeast(1), "programs of one user cannot read each other's memory"},
	{"kernel.kptr_restrict", "1", atLeast(1), "kernel addresses stay hidden"},
	{"kernel.dmesg_restrict", "1", exactly(1), "the kernel's log stays with root"},
	{"kernel.perf_event_paranoid", "2", atLeast(2), "performance events stay with root"},
	{"kernel.io_uring_disabled", "2", atLeast(1), "io_uring is a wide surface of the kernel"},
	{"vm.unprivileged_userfaultfd", "0", exactly(0), "page faults are not served by programs"},
	{"dev.tty.legacy_tiocsti", "0", exactly(0), "no program types into a terminal"},
	{"fs.protected_symlinks", "1", exactly(1), "links in shared folders are not followed"},
	{"fs.protected_hardlinks", "1", exactly(1), "no hard link to somebody else's file"},
	{"fs.protected_fifos", "2", atLeast(1), "pipes in shared folders are not opened"},
	{"fs.protected_regular", "2", atLeast(1), "files in shared folders are not opened"},
	{"fs.suid_dumpable", "0", exactly(0), "privileged programs leave no core files"},
}

func (h Host) sysctl(s sysctl) (Check, bool) {
	text, ok := h.read("/proc/sys/" + strings.ReplaceAll(s.key, ".", "/"))
	if !ok {
		return Check{}, false
	}
	c := Check{ID: s.key, Title: s.key, Status: OK, Detail: text + ": " + s.why}
	v, err := strconv.Atoi(text)
	if err != nil || !s.good(v) {
		c.Status, c.Detail = Warn, text+", better "+s.want+": "+s.why
		c.Fix = "sudo sysctl -w " + s.key + "=" + s.want
	}
	return c, true
}

func (h Host) corePattern() Check {
	c := Check{ID: "kernel.core_pattern", Title: "kernel.core_pattern", Status: OK}
	v, ok := h.read("/proc/sys/kernel/core_pattern")
	if !ok {
		c.Status, c.Detail = Warn, "cannot be read"
		return c
	}
	c.Detail = v
	if strings.HasPrefix(v, "|") {
		c.Detail = v + ": a program of the host receives core dumps; cloisters make none (RLIMIT_CORE 0)"
	}
	return c
}
