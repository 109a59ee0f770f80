package escape

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// ErrNothing is the answer of a try that did not fail but came to nothing: what
// it looked for is not there.
var ErrNothing = errors.New("nothing there")

// ErrRefused is the answer of a try that the guardian refused in words: HTTP
// 403, a DNS refusal, a TLS alert, a reset.
var ErrRefused = errors.New("refused")

// Case is one row of the corpus.
type Case struct {
	ID, Class string
	Attack    string   // the mechanism and what is attempted
	Source    string   // where it was seen, or the wall it tries
	Layers    []string // what stops it, the outermost first; a Layer can be left out
	// Tries are made inside, and again outside as the positive control.
	Tries func(in Inside) []Try
	// Flags of the cloister of its own that the case needs; nil shares one.
	Flags func(w *World) []string
	// Prepare changes the world before the cloister of its own starts.
	Prepare func(w *World) error
	// Due are the records that must be there, each once.
	Due []Due
	// Host is looked at outside when the cloister has ended, or is the whole
	// case where there are no tries.
	Host func(w *World) []Finding
	// Contained: the control changes mounts or the network, so that it is made in
	// namespaces only, never on the host itself.
	Contained bool
	// Only are the kinds of enclosure that the case is about; nil: every.
	Only []Column
	// Except are kinds of enclosure where the case has no meaning, and why.
	Except map[Column]string
	// Slow is a longer time for the tries, in seconds.
	Slow int
	// Needs are the layers without which the attempt itself cannot be made, and
	// why: what is refused then proves nothing, and never counts as held.
	Needs map[Layer]string
}

// Shares tells whether a case needs no cloister of its own.
func (c Case) Shares() bool { return c.Tries != nil && !own(c) }

// Try is one thing that is attempted.
type Try struct {
	Name string
	// Do attempts it; nil means that it came off.
	Do func() error
	// Held are the answers that count as refusals here; any other, also a
	// missing tool, fails the case. nil means Denied.
	Held []error
	// Open are answers which show, outside, that the way was free although the
	// attempt went no further than it had to.
	Open []error
	// Control says where the control is possible; empty: for everybody.
	Control Control
	// Why there is no control.
	Why string
}

// Control says who can make a try's positive control on a host.
type Control string

// The kinds of control.
const (
	ByAnybody Control = ""
	ByRoot    Control = "root" // the kernel refuses an ordinary user by itself
	ByNobody  Control = "none"
)

// Denied are the usual answers of a mount view, of Landlock or of permissions.
func Denied() []error {
	return []error{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOENT, ErrNothing}
}

// Due is a record that must be in the audit exactly once.
type Due struct {
	Kind, Host, Verdict string
	// Some are allowed to come more than once: programs try again.
	Some bool
}

// Finding is one result of a look at the host.
type Finding struct {
	Name   string
	Held   bool
	Detail string
}

// Found is a finding with what was seen.
func Found(name string, held bool, format string, args ...any) Finding {
	return Finding{Name: name, Held: held, Detail: fmt.Sprintf(format, args...)}
}

// NoHost is a finding of a look that could not be made.
func NoHost(name string, err error) []Finding { return []Finding{{Name: name, Detail: err.Error()}} }

// Inside is what an attempt knows of the host: as much as the most patient
// attacker, who knows every path and number.
type Inside struct {
	Control bool   `json:"control"`
	ByRoot  bool   `json:"by_root"` // root started the cloister
	Level   Column `json:"level"`   // the kind of cloister

	Base    string `json:"base"`    // the folder that everything of the world is in
	Home    string `json:"home"`    // the person's
	Project string `json:"project"` // the project, writable
	Outside string `json:"outside"` // a folder beside it, with a file "canary"
	Self    string `json:"self"`    // this program

	PID      int    `json:"pid"`      // a process of the host, of the same user
	Guardian int    `json:"guardian"` // the guardian's process
	Socket   string `json:"socket"`   // the guardian's socket
	Audit    string `json:"audit"`    // the folder of the record
	Abstract string `json:"abstract"` // an abstract unix socket of the host
	Path     string `json:"path"`     // a unix socket of the host on a path
	Port     int    `json:"port"`     // of the sink, TCP and UDP, on every address of the host
	Secure   int    `json:"secure"`   // of the server behind inspected names, on loopback
	Raw      int    `json:"raw"`      // of the server behind RawName, on loopback
	HostIP   string `json:"host_ip"`  // an address of the host that is not loopback; may be empty
}

// Matches tells whether an answer is one of a list.
func Matches(err error, list []error) bool {
	return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) })
}

// Layer is one wall that a build with the tag cloister_layeroff can leave out.
type Layer string

// The layers, as that build calls them.
const (
	View         Layer = "view"
	Net          Layer = "net"
	Landlock     Layer = "landlock"
	Seccomp      Layer = "seccomp"
	Capabilities Layer = "capabilities"
	Protect      Layer = "protect"
	Policy       Layer = "policy"
	Commands     Layer = "commands"
	// Those of machines alone, around the server of files (sandbox/microvm/monitor).
	Modes  Layer = "modes"
	Server Layer = "server"
)

// Layers are all of them.
func Layers() []Layer { return append(Native.Layers(), Modes, Server) }

// Layers are those that can be left out of a column's cloisters.
func (c Column) Layers() []Layer {
	switch c {
	case GVisor:
		// Landlock is not of it, the kernel's own program gives capabilities up, and without the
		// view there is no folder that the kernel could serve.
		return []Layer{Net, Seccomp, Protect, Policy, Commands}
	case Docker: // an engine makes no container without a view and a network namespace of its own
		return []Layer{Seccomp, Capabilities, Protect, Policy, Commands}
	case MicroVM: // in the guest stand its own kernel and what holds commands there
		return []Layer{Modes, Server, Protect, Policy, Commands}
	case Native, WithImage, User, Pod:
	}
	return []Layer{View, Net, Landlock, Seccomp, Capabilities, Protect, Policy, Commands}
}

// Tried says whether a case can be tried with a layer left out at all.
func (c Case) Tried() bool {
	if c.Elsewhere(Native) { // layers are the native driver's
		return false
	}
	return c.Tries != nil || c.Concerns(Native)
}

// Concerns says whether a case names or needs a layer that can be left out of a column's cloisters.
func (c Case) Concerns(column Column) bool {
	return slices.ContainsFunc(column.Layers(), func(l Layer) bool { _, needs := c.Needs[l]; return needs || c.names(l) })
}

// names tells whether a case says that a layer stops it.
func (c Case) names(l Layer) bool { return slices.Contains(c.Layers, string(l)) }
