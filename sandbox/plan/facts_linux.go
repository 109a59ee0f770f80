package plan

import (
	"crypto/rand"
	"fmt"
	"strings"

	"cloister/sandbox"
)

// Facts are what a plan depends on besides the Spec: what a hand found where the box will be.
type Facts struct {
	Base Base
	// Image is the folder of an image's root, of OnImage.
	Image sandbox.HostPath
	// System are the host's system folders that there are, and Etc what of its /etc is shown, of OnHost.
	System, Etc []Found
	// CPUs says that the kernel lists its processors.
	CPUs bool
	// Chromium says that the root has a chromium, and VarTmp that it has a folder there.
	Chromium, VarTmp bool
	// Hide are those of Hidden that are there and that an ordinary user could read, and Hold those of
	// ReadOnly that nothing holds yet.
	Hide []Found
	Hold []string
	// Passwd and Groups are the image's lists of names; empty where it has none.
	Passwd, Groups string
	// GID is the payload's group; 0: the number of its user.
	GID int
	// BootID is what the box has for the kernel's name of this run.
	BootID []byte
	// Bounds are what Proc sets.
	Bounds []Bound
	// Pending is how many signals may wait for all that a person owns; 0 where that is not known.
	Pending uint64
	// Watched says that programs and files are reported.
	Watched bool
	// Hosted are files that a kernel of its own shows, which runs the command; nil where none does.
	Hosted *Hosted
}

// Base is what a box's root is made of.
type Base uint8

// What it can be.
const (
	OnHost   Base = iota // memory, with the host's own system folders
	OnImage              // memory over an image's root
	OnEngine             // what an engine made of an image, with its own mounts in it
)

// Found is something that the host has at a path: a folder, a link to To, or a file, which is
// copied where that is cheaper than a mount.
type Found struct {
	Path   string
	To     string
	Dir    bool
	Copied bool
}

// Hosted is a kernel of its own that runs the command in the view.
type Hosted struct {
	// Program is its file. Files and Beside it has beside the view, and Shown in it.
	Program       sandbox.Bind
	Files         []sandbox.File
	Shown, Beside []sandbox.Bind
	Devices       []string
	// System has it find the host's system folders beside the view.
	System bool
	// Bounds are what the Proc beside the view sets.
	Bounds []Bound
}

// Where a hosted kernel finds the view, and a folder of its own that it may write to.
const (
	ViewPath  = "/view"
	StatePath = "/state"
)

// SystemFolders are shown read-only as they are: what a distribution installs
// for everybody. A symbolic link among them (merged /usr) stays a link.
func SystemFolders() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"}
}

// Hidden are the files and folders of /proc that tell about the host or are knobs of its kernel:
// Docker's own list, with what HARDENING 5.2 adds, and what sets one machine apart from another (how it
// was booted, its disks) or what its programs hold locks of.
func Hidden() []string {
	list := strings.Fields(`kcore keys latency_stats timer_list timer_stats sched_debug interrupts config.gz modules
		kallsyms kmsg sysrq-trigger acpi asound scsi bus fs irq dynamic_debug
		cmdline diskstats locks mdstat partitions swaps`)
	for i, name := range list {
		list[i] = "/proc/" + name
	}
	return list
}

// ReadOnly are those that programs read but must not write.
func ReadOnly() []string { return []string{"/proc/sys"} }

// CPUs is the list of processors, which runtimes size their pools by.
const CPUs = "/sys/devices/system/cpu"

// Devices are the nodes under /dev that a program may rely on.
func Devices() []string { return []string{"null", "zero", "full", "random", "urandom", "tty"} }

// deviceLinks are the links under /dev. One memory file system, with one bound, is /tmp and /dev/shm.
func deviceLinks() [][2]string {
	return [][2]string{
		{"ptmx", "pts/ptmx"}, {"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
		{"stderr", "/proc/self/fd/2"}, {"shm", "../tmp"},
	}
}

// NewBootID is a random UUID (RFC 9562) as the kernel writes it, for Facts.
func NewBootID() []byte {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // it cannot fail (crypto/rand)
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

// Hostname is a name as a host's: letters, digits, hyphens.
func Hostname(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	clean = strings.Trim(clean, "-")
	clean = strings.Trim(clean[:min(63, len(clean))], "-")
	if clean == "" {
		return "cloister"
	}
	return clean
}
