package gvisor

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/plan"
)

// The parts of an OCI runtime specification (1.0.2) that are used.
type (
	ociSpec struct {
		Version  string     `json:"ociVersion"`
		Process  ociProcess `json:"process"`
		Root     ociRoot    `json:"root"`
		Hostname string     `json:"hostname"`
		Mounts   []ociMount `json:"mounts"`
		Linux    ociLinux   `json:"linux"`
	}
	ociProcess struct {
		Terminal     bool        `json:"terminal"`
		User         ociUser     `json:"user"`
		Args         []string    `json:"args"`
		Env          []string    `json:"env"`
		Cwd          string      `json:"cwd"`
		Capabilities ociCaps     `json:"capabilities"`
		Rlimits      []ociRlimit `json:"rlimits"`
		NoNew        bool        `json:"noNewPrivileges"`
	}
	ociUser struct {
		UID int `json:"uid"`
		GID int `json:"gid"`
	}
	ociCaps struct {
		Bounding  []string `json:"bounding"`
		Effective []string `json:"effective"`
		Permitted []string `json:"permitted"`
	}
	ociRlimit struct {
		Type string `json:"type"`
		Soft uint64 `json:"soft"`
		Hard uint64 `json:"hard"`
	}
	ociRoot struct {
		Path string `json:"path"`
	}
	ociMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	ociLinux struct {
		Namespaces []ociNamespace `json:"namespaces"`
		UIDs       []ociMapping   `json:"uidMappings"`
		GIDs       []ociMapping   `json:"gidMappings"`
	}
	ociNamespace struct {
		Type string `json:"type"`
	}
	ociMapping struct {
		Inside  int `json:"containerID"`
		Outside int `json:"hostID"`
		Size    int `json:"size"`
	}
)

// machine is what of this host a specification depends on.
type machine struct {
	memory int64 // bytes
	files  unix.Rlimit
	filter []byte // of system calls, as the kernel takes it
}

// firstPath is where the first process of a cloister lies inside.
const firstPath = "/run/.cloister/first"

// reserve are the threads of the first process, which count with the command's.
const reserve = 16

// process is the process that becomes the command, or makes it.
func process(s sandbox.Spec, m machine, mode string, wired wiring) ociProcess {
	pids := uint64(plan.Pids(s.Limits)) + reserve
	first := []string{firstPath, mode, Protocol, base64.StdEncoding.EncodeToString(m.filter), wired.moves()}
	p := ociProcess{
		Terminal: wired.terminal, User: ociUser{s.User.ID, s.User.ID}, Args: append(first, s.Argv...),
		Env: s.Env, Cwd: string(s.Dir), NoNew: true,
		Capabilities: ociCaps{Bounding: []string{}, Effective: []string{}, Permitted: []string{}},
		Rlimits: []ociRlimit{
			{"RLIMIT_NPROC", pids, pids},
			{"RLIMIT_NOFILE", m.files.Cur, m.files.Max},
			{"RLIMIT_CORE", 0, 0},
			{"RLIMIT_MEMLOCK", 64 << 10, 64 << 10},
			{"RLIMIT_RTPRIO", 0, 0},
		},
	}
	if p.Env == nil {
		p.Env = []string{}
	}
	if mode == modeFirst {
		// The first process holds one capability, which is of no use, so that what joins
		// later, and lacks it, cannot trace it.
		p.Capabilities.Bounding = []string{"CAP_WAKE_ALARM"}
		p.Capabilities.Permitted = p.Capabilities.Bounding
	}
	return p
}

// The two ways of being the first program of a process inside.
const (
	modeFirst = "first"
	modeJoin  = "join"
)

// specification is the whole box in the kernel's words.
func specification(s sandbox.Spec, m machine, wired wiring) ociSpec {
	one := []ociMapping{{s.User.ID, s.User.ID, 1}}
	o := ociSpec{
		Version: "1.0.2", Process: process(s, m, modeFirst, wired), Root: ociRoot{plan.ViewPath},
		Hostname: plan.Hostname(s.Name),
		Mounts: []ociMount{
			{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
			{"/dev", "tmpfs", "tmpfs", nil},
			{"/dev/pts", "devpts", "devpts", nil},
			{"/sys", "sysfs", "sysfs", []string{"nosuid", "noexec", "nodev", "ro"}},
			memoryFolder("/dev/shm", m),
		},
		Linux: ociLinux{UIDs: one, GIDs: one},
	}
	for _, kind := range []string{"pid", "ipc", "uts", "mount", "user"} {
		o.Linux.Namespaces = append(o.Linux.Namespaces, ociNamespace{kind})
	}
	if !plan.ShowsBelow(s, "/tmp") && !plan.ShowsBelow(s, "/var/tmp") {
		o.Mounts = append(o.Mounts, memoryFolder("/tmp", m))
	}
	return o
}

func memoryFolder(at string, m machine) ociMount {
	size := "size=" + strconv.FormatInt(m.memory/4, 10)
	return ociMount{at, "tmpfs", "tmpfs", []string{"nosuid", "nodev", "mode=1777", size}}
}

func encoded(v any) ([]byte, error) { return json.Marshal(v) }
