package lsm

import (
	"fmt"
	"strings"
	"time"
)

// Rights are what a process may do with an object.
type Rights uint8

// The rights. Write is everything that changes an object or its place: create, remove,
// link, rename, truncate, attributes. Code is to map a file as code, List to open a folder.
const (
	Read Rights = 1 << iota
	Write
	Exec
	Code
	List

	All = Read | Write | Exec | Code | List
)

func (r Rights) String() string {
	var words []string
	for i, word := range []string{"read", "write", "execute", "map as code", "list"} {
		if r&(1<<i) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

// Policy is what a session may do with files. Its zero value permits nothing.
type Policy struct {
	// Permit and Forbid hold for everything.
	Permit, Forbid Rights
	Rules          []Rule
	Mode           Mode
	// Guarded refuses, in every mode, what bpf/guards.h has: processes of others, another
	// identity, the kernel's own surface, sockets beside the gate.
	Guarded bool
}

// Flags of what a policy says of an object (HeldFlag), or of everything, as bpf/lsm.bpf.c has them.
const (
	HeldFlag       = 1 // it is not renamed or removed
	noFilelessFlag = 2
	GuardedFlag    = 4
	letsFlag       = 8
	recordsFlag    = 16
	spokenShift    = 8
	// BaseFlags are those of everything.
	BaseFlags = noFilelessFlag | GuardedFlag | letsFlag | recordsFlag | uint32(All)<<spokenShift
)

// Mode is how a policy is kept.
type Mode uint8

// The modes. The same programs decide in all of them; in Shadow and Record the verdict is
// reported and not kept, and Record reports what is permitted too, each object once.
const (
	Enforce Mode = iota
	Shadow
	Record
)

// Rule is what is said of one object, and with it of all that is below a folder.
type Rule struct {
	Path           string // absolute, as the session's own processes would name it
	Own            bool   // rather as this process names it: the object may be covered there
	Maybe          bool   // where nothing has the path, or something else than a File, the rule says nothing
	File           bool   // it is no folder; a folder is an error
	Straight       bool   // no link leads to it; where one does, nothing has the path
	Permit, Forbid Rights
}

// Why says why something was refused. Its zero value is no refusal.
type Why uint8

// The reasons, as bpf/lsm.bpf.c numbers them.
const (
	Allowed Why = iota
	Forbidden
	NotPermitted
	TooDeep
	Detached
	Gain
	HoldsRule
	NoPolicy
	Fileless
	NoMounts
	Foreign
	GainsID
	Closed
	Beside
)

func (w Why) String() string {
	switch w {
	case Allowed:
		return "allowed"
	case Forbidden:
		return "a rule forbids it"
	case NotPermitted:
		return "no rule permits it"
	case TooDeep:
		return "it lies below more folders than are looked at"
	case Detached:
		return "no folder of it is known"
	case Gain:
		return "more could be done with it there"
	case HoldsRule:
		return "a rule lies in it"
	case NoPolicy:
		return "its session has ended"
	case Fileless:
		return "a program of no file"
	case NoMounts:
		return "nothing is mounted under a policy of files"
	case Foreign:
		return "the process is not of this session"
	case GainsID:
		return "no process of a session becomes root"
	case Closed:
		return "the kernel's own surface is closed to sessions"
	case Beside:
		return "no such socket goes through the gate"
	}
	return fmt.Sprintf("why(%d)", w)
}

// Op is what was tried.
type Op uint8

// The attempts, as bpf/lsm.bpf.c numbers them.
const (
	Opened Op = iota + 1
	Created
	Removed
	Linked
	Renamed
	Changed
	Executed
	Mapped
	Received
	Mounted
	Connected
	Traced
	Signaled
	Identified
	Surfaced
	Socketed
	Scripted
)

func (o Op) String() string {
	names := [...]string{"", "open", "create", "remove", "link", "rename", "change", "execute", "map", "receive", "mount",
		"connect", "trace", "signal", "set id", "kernel", "socket", "execute"}
	if int(o) < len(names) && o > 0 {
		return names[o]
	}
	return fmt.Sprintf("op(%d)", o)
}

// An Event is something that was refused, a program that was executed (Why is Allowed), or
// in the mode Record something that was permitted.
type Event struct {
	When    time.Time
	PID     int    // the process, as the host numbers it
	Program string // the name of the task, which it can choose itself
	Op      Op
	Need    Rights
	Why     Why
	Let     bool     // it was refused by the policy, and let pass by the mode
	Folder  bool     // the object is a folder
	Words   []string // what a program was given, which is advice; no more than 16, and 200 bytes of each
	More    int      // words that are not in Words, or not whole
	// Path is a name of the object: below the folder whose rule spoke, otherwise as the
	// mounts of the session showed it when the policy was applied. It is for people; nothing
	// was decided by it.
	Path string
	Rule string // the path of the rule that forbade it
	// Unseen says that no mount of the session shows the object: Path is one of its file system.
	Unseen bool
}

// Counts are numbers of one session.
type Counts struct {
	Denied   uint64 // what was refused, also what was let pass
	Dropped  uint64 // events that found no room
	Repeated uint64 // what was permitted and had been reported before
}

// Unsupported says that this kernel cannot judge files here, and what would change that.
type Unsupported struct {
	Reason, Fix string
	Err         error
}

func (e *Unsupported) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + ": " + e.Err.Error()
}

func (e *Unsupported) Unwrap() error { return e.Err }

// Absent are paths of rules that nothing has yet: a label needs an object.
type Absent struct{ Paths []string }

func (e *Absent) Error() string {
	return "nothing is there to be judged: " + strings.Join(e.Paths, ", ")
}
