package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"

	"cloister/internal/exactjson"
	"cloister/internal/realpath"
)

// HostPath is an absolute path on the host, free of symbolic links.
type HostPath string

// MaxTerminals bounds the terminals of one cloister. All mounts of devpts together
// have kernel.pty.max less kernel.pty.reserve, 3,072 as a rule, and sshd on a host
// whose terminals are used up lets no one in who is in a container.
const MaxTerminals = 256

// GuestPath is an absolute path inside the cloister.
type GuestPath string

// Spec is what one cloister is: pure data, the same digest on any machine.
type Spec struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Argv     []string  `json:"argv"`
	Env      []string  `json:"env"`
	Dir      GuestPath `json:"dir"`
	User     User      `json:"user"`
	Root     Root      `json:"root,omitzero"`      // what / is; the zero value is the host's own system folders
	Binds    []Bind    `json:"binds,omitempty"`    // in order; a later one lies on an earlier one
	Protect  []Protect `json:"protect,omitempty"`  // applied after every bind
	Files    []File    `json:"files,omitempty"`    // made inside, on the tmpfs root
	Links    []Link    `json:"links,omitempty"`    // symbolic links on the tmpfs root
	Devices  []string  `json:"devices,omitempty"`  // names under /dev that are bound from the host
	Limits   Limits    `json:"limits"`             // zero: none asked for
	Network  bool      `json:"network"`            // false: loopback only, and no gate
	Accepted []string  `json:"accepted,omitempty"` // residues that a person accepted by name
	Judged   []Judged  `json:"judged,omitempty"`   // of files and programs, besides the view; a driver that cannot refuses
	Permits  Permits   `json:"permits,omitzero"`   // of files and programs, within the view; a driver that cannot refuses
	Watched  Watched   `json:"watched,omitzero"`   // what is reported of files and programs
	InKernel bool      `json:"kernel,omitempty"`   // the kernel's judge keeps Judged and Permits, or tells of Watched
	Denied   []string  `json:"denied,omitempty"`   // host paths that the containment probe must not find
	Peers    *Peers    `json:"peers,omitempty"`    // the cloisters beside this one; nil: none
}

// Peers says which cloisters stand beside one, on a network that each of them has by
// itself: package gate says what address a number is. No packet passes between them.
// TCP to the address of another comes out at a socket outside, and whoever serves it
// decides where it goes on.
type Peers struct {
	// Self is this cloister's own number, and Others are those that it may reach.
	Self   uint8   `json:"self"`
	Others []uint8 `json:"others,omitempty"`
	// Names are those of this one and the others, for /etc/hosts.
	Names []PeerName `json:"names,omitempty"`
	// Local are ports of 127.0.0.1 that are another's, each with a socket of its own.
	Local []uint16 `json:"local,omitempty"`
}

// PeerName is a name by which a peer is reached.
type PeerName struct {
	Number uint8  `json:"number"`
	Name   string `json:"name"`
}

// Sockets counts the sockets that peers have besides the gate's: one for all addresses,
// and one for each local port.
func (p *Peers) Sockets() int {
	if p == nil {
		return 0
	}
	return 1 + len(p.Local)
}

// Equal reports whether two cloisters have the same peers.
func (p *Peers) Equal(o *Peers) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Self == o.Self && slices.Equal(p.Others, o.Others) && slices.Equal(p.Local, o.Local)
}

// Root is a root file system that the cloister has instead of the host's own
// system folders. It is shown read-only and never changed.
type Root struct {
	// Dir is where it lies unpacked: folders and files of the driver's own user,
	// with nothing in /dev, /proc, /sys and /run.
	Dir HostPath `json:"dir"`
	// ID names its content, sha256:HEX.
	ID string `json:"id"`
}

// User is who the payload is, seen from inside.
type User struct {
	ID   int       `json:"id"`
	Name string    `json:"name"`
	Home GuestPath `json:"home"`
}

// Access is what the payload may do with a bind. The zero value is read-only.
type Access uint8

// The two kinds of access.
const (
	ReadOnly Access = iota
	ReadWrite
)

// Bind shows a host path inside.
type Bind struct {
	Source HostPath  `json:"source"`
	Target GuestPath `json:"target"`
	Access Access    `json:"access"`
	// File tells that Source is not a folder.
	File bool `json:"file,omitempty"`
	// System marks a path that every user of the host can read as it stands.
	// Others are shown with the owner's rights, also when root starts the driver.
	System bool `json:"system,omitempty"`
	// Overlay keeps what is written there in memory: the host's files stay as
	// they are, and what was written is gone with the box. A driver that cannot
	// refuses to start.
	Overlay bool `json:"overlay,omitempty"`
	// Upper says where an overlay keeps what is written, instead of in memory.
	Upper *Upper `json:"upper,omitempty"`
}

// Upper is where an overlay keeps what is written to it. Its folders are named relative
// to Store, which must be one file system that overlayfs can write to; nothing of it is
// visible inside.
type Upper struct {
	Store HostPath `json:"store"`
	Dir   string   `json:"dir"`
	Work  string   `json:"work"`
	Lower []string `json:"lower,omitempty"` // layers above the bind's source, the newest first
}

// Protect is a path that the payload must find read-only.
type Protect struct {
	Target GuestPath `json:"target"`
	File   bool      `json:"file,omitempty"`
	// Pin makes the folder a mount of its own, writable as before, so that it
	// cannot be renamed away from under the protected path below it.
	Pin bool `json:"pin,omitempty"`
	// Empty covers the path with an empty read-only folder or file instead of
	// what it holds.
	Empty bool `json:"empty,omitempty"`
	// Instead covers a file with one of the Spec's Files.
	Instead GuestPath `json:"instead,omitempty"`
	// Yields is for a stub or a socket behind something empty: once someone's own
	// file is in its place, that is shown, read-only. Everything else that is covered
	// stays hidden, however often the host replaces it.
	Yields bool `json:"yields,omitempty"`
	// Fleeting is for a file that is only hidden, and may be gone by the time that it
	// would be: nothing is to be hidden then. It is covered when it is back.
	Fleeting bool `json:"fleeting,omitempty"`
}

// File is a small file made inside: Head, then what From holds, then Data.
type File struct {
	Path GuestPath `json:"path"`
	Head []byte    `json:"head,omitempty"`
	// From is a file of the host, one that the payload's user may read; of it
	// Size bytes from Skip on, or all where Size is 0.
	From HostPath `json:"from,omitempty"`
	Skip int64    `json:"skip,omitempty"`
	Size int64    `json:"size,omitempty"`
	Data []byte   `json:"data"`
	Mode uint32   `json:"mode"`
}

// Content is the whole file, for a driver whose kernel cannot copy From.
func (f File) Content() ([]byte, error) {
	if f.From == "" {
		return slices.Concat(f.Head, f.Data), nil
	}
	text, err := os.ReadFile(string(f.From))
	if err != nil {
		return nil, err
	}
	size := int64(len(text))
	if f.Skip > size || f.Size > size-f.Skip {
		return nil, fmt.Errorf("copy %s: it has %d bytes, of which %d from %d on are wanted", f.From, size, f.Size, f.Skip)
	}
	end := size
	if f.Size > 0 {
		end = f.Skip + f.Size
	}
	return slices.Concat(f.Head, text[f.Skip:end], f.Data), nil
}

// Link is a symbolic link made inside.
type Link struct {
	Path   GuestPath `json:"path"`
	Target string    `json:"target"`
}

// Judged is an object whose use the kernel itself judges, with all below a folder: by
// whatever name it is reached.
type Judged struct {
	Path GuestPath `json:"path"`
	Rule string    `json:"rule"` // what forbids it, for the record
	// Covered is what the view shows as something else: the object below is meant.
	Covered bool `json:"covered,omitempty"`
	// Glob says that Path is a pattern of paths (internal/pathglob), in the folder In where it does
	// not begin with /. Whatever it names is judged by its name, when that is used.
	Glob bool      `json:"glob,omitempty"`
	In   GuestPath `json:"in,omitempty"`
	// Asked says that the rule has a person asked, where that is possible.
	Asked bool `json:"asked,omitempty"`
	// What is forbidden. Write is everything that changes it, Exec also to map it as code.
	Read  bool `json:"read,omitempty"`
	Write bool `json:"write,omitempty"`
	Exec  bool `json:"exec,omitempty"`
}

// Watched says what is reported of the files and programs that a box uses. A driver that
// cannot reports nothing.
type Watched struct {
	// Programs reports every program that is executed, and All every file that is opened too,
	// once each. What Rules refuse is reported besides.
	Programs bool `json:"programs,omitempty"`
	All      bool `json:"all,omitempty"`
	// Kept says that Rules are kept; otherwise they only lead to reports.
	Kept bool `json:"kept,omitempty"`
	// ByName says that nothing but Rules is looked at: the kernel's judge tells the rest.
	ByName bool     `json:"by_name,omitempty"`
	Rules  []Judged `json:"rules,omitempty"`
	// Permits lead to reports of what they do not permit.
	Permits Permits `json:"permits,omitzero"`
	// Asked are files that the view closes, and that a person may have handed in. A driver that
	// cannot hold a call refuses to start.
	Asked []Asked `json:"asked,omitempty"`
}

// Asked is a file about which a person is asked when it is opened.
type Asked struct {
	Path   GuestPath `json:"path"`
	Source HostPath  `json:"source"` // the file that is closed at Path
	// Owned is the host's folder or file with whose owner's rights it is shown; empty where it
	// is shown with those of everybody.
	Owned HostPath `json:"owned,omitempty"`
	Rule  string   `json:"rule"`
	// About which uses. Who writes may read, too.
	Read  bool `json:"read,omitempty"`
	Write bool `json:"write,omitempty"`
	// StandIn is the host's file that is shown at Path (internal/standin), of a program: empty until a person has
	// allowed that it is executed. It is empty for files.
	StandIn HostPath `json:"stand_in,omitempty"`
}

// StandIns is where inside the files lie that are shown in the place of programs.
const StandIns = "/run/.asked"

// Permits are lists of what alone may be used of what the view shows. The box's own files
// (/dev, /proc, /.cloister) may be used besides.
type Permits struct {
	// Opens says that nothing is opened that List does not permit, and Programs that
	// nothing is executed so.
	Opens    bool     `json:"opens,omitempty"`
	Programs bool     `json:"programs,omitempty"`
	List     []Permit `json:"list,omitempty"`
}

// Any reports whether there is such a list.
func (p Permits) Any() bool { return p.Opens || p.Programs }

// Permit is what may be done with a file, or with a folder and all below it.
type Permit struct {
	Path  GuestPath `json:"path"`
	Dir   bool      `json:"dir,omitempty"`
	Read  bool      `json:"read,omitempty"`
	Write bool      `json:"write,omitempty"`
	Exec  bool      `json:"exec,omitempty"`
}

// Own are the files of the box itself, which no list and no statement about a folder above
// them means.
func Own() []GuestPath { return []GuestPath{"/dev", "/proc", "/.cloister"} }

// Led reports whether links on the way to a permitted path are followed: in the system's own folders
// alone, since elsewhere a payload of another session could have put one where now nothing is written.
func Led(at GuestPath) bool {
	system := []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/sbin", "/sys", "/usr"}
	return slices.ContainsFunc(system, func(dir string) bool { return realpath.Inside(string(at), dir) })
}

// Any reports whether anything is to be reported.
func (w Watched) Any() bool { return w.Programs || w.All || len(w.Rules) > 0 || w.Permits.Any() }

// Limits bound what the payload may use. Zero means that no one asked.
type Limits struct {
	Memory int64   `json:"memory,omitempty"` // bytes
	CPUs   float64 `json:"cpus,omitempty"`
	Pids   int64   `json:"pids,omitempty"`
}

// Least is the lesser of two limits, each by itself.
func (l Limits) Least(o Limits) Limits {
	return Limits{least(l.Memory, o.Memory), least(l.CPUs, o.CPUs), least(l.Pids, o.Pids)}
}

// least is the smaller of two limits, of which 0 is none.
func least[T int64 | float64](a, b T) T {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Digest names the Spec. It depends on nothing but its content.
func (s Spec) Digest() string {
	b, err := exactjson.Marshal(s)
	if err != nil {
		return "" // a Spec holds nothing that JSON cannot say
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
