package lsm

import (
	"fmt"
	"strings"
	"time"
)

// Rights are what a process may do with an object.
type Rights uint8

// The rights. Write is everything that changes an object or its place: create, remove,
// link, rename, truncate, attributes. Exec is to run a file or to map it as code.
const (
	Read Rights = 1 << iota
	Write
	Exec

	All = Read | Write | Exec
)

func (r Rights) String() string {
	var words []string
	for i, word := range []string{"read", "write", "execute"} {
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
}

// Rule is what is said of one object, and with it of all that is below a folder.
type Rule struct {
	Path           string // absolute, as the session's own processes would name it
	Own            bool   // rather as this process names it: the object may be covered there
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
)

func (o Op) String() string {
	names := [...]string{"", "open", "create", "remove", "link", "rename", "change", "execute", "map", "receive", "mount"}
	if int(o) < len(names) && o > 0 {
		return names[o]
	}
	return fmt.Sprintf("op(%d)", o)
}

// An Event is something that was refused, or a program that was executed (Why is Allowed).
type Event struct {
	When    time.Time
	PID     int    // the process, as the host numbers it
	Program string // the name of the task, which it can choose itself
	Op      Op
	Need    Rights
	Why     Why
	// Path is a name of the object: below the folder whose rule spoke, otherwise as the
	// mounts of the session showed it when the policy was applied. It is for people; nothing
	// was decided by it.
	Path string
	Rule string // the path of the rule that forbade it
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
