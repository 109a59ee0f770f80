package plan

import "cloister/sandbox"

// Step is one thing that a hand does. The list of its kinds is closed: a hand has a case for
// each, or says which its Facts never lead to.
//
//sumtype:decl
type Step interface{ step() }

// Steps of the view.
type (
	// Root makes what everything else lies on: memory, with an image below it where one is named.
	Root struct{ Image sandbox.HostPath }
	// Folder makes a folder, and those above it, where there is none.
	Folder struct {
		Path string
		Mode uint32
		// Instead takes a link away that an earlier step made there.
		Instead bool
	}
	// File makes a small file.
	File struct{ sandbox.File }
	// Link makes a symbolic link, where the root has no folder.
	Link struct{ sandbox.Link }
	// Bind shows something of the host.
	Bind struct{ sandbox.Bind }
	// Device shows one of the host's devices by its name under /dev.
	Device struct{ Name string }
	// Proc mounts the kernel's list of processes, of which Bounds are set.
	Proc struct{ Bounds []Bound }
	// Terminals mounts terminals of the box's own, so many.
	Terminals struct{ Most int }
	// Memory mounts a file system in memory that everybody inside may write to.
	Memory struct{ Path string }
	// Same shows the memory that is at As at a second path.
	Same struct{ Path, As string }
	// Null hides a file of the kernel's behind the null device.
	Null struct{ Path string }
	// Cover lays something read-only over a path, or holds it where it is.
	Cover struct{ sandbox.Protect }
	// Seal makes the root read-only and lets go of whatever else there is.
	Seal struct{}
)

// Steps by which a process gives up what it could do.
type (
	// Limit bounds a resource of each process.
	Limit struct {
		Name       string
		Soft, Hard uint64
	}
	// Drop gives up every privilege for good.
	Drop struct{}
	// Keep hands the privileges of the box's own user namespace on, to a hosted kernel.
	Keep struct{}
	// Landlock lets the process write in some places alone, and use what is permitted alone.
	Landlock struct {
		Writable []string
		Permits  sandbox.Permits
	}
	// Watch reports what is executed and opened.
	Watch struct{}
	// Fileless refuses memory that would be a file.
	Fileless struct{}
	// Calls refuses the system calls that are not in package seccomp's table.
	Calls struct{}
)

// Steps that the process which becomes the command tries, and that end the start when they
// find something else.
type (
	// Absent finds nothing at a path.
	Absent struct{ Path string }
	// Held finds that what is mounted at a path is read-only.
	Held struct {
		Path string
		// Fleeting lets the path be away.
		Fleeting bool
	}
	// Overlaid finds an overlay.
	Overlaid struct{ Path string }
)

// Bound is a number below /proc/sys/user.
type Bound struct {
	Name  string
	Value int
}

func (Root) step()      {}
func (Folder) step()    {}
func (File) step()      {}
func (Link) step()      {}
func (Bind) step()      {}
func (Device) step()    {}
func (Proc) step()      {}
func (Terminals) step() {}
func (Memory) step()    {}
func (Same) step()      {}
func (Null) step()      {}
func (Cover) step()     {}
func (Seal) step()      {}
func (Limit) step()     {}
func (Drop) step()      {}
func (Keep) step()      {}
func (Landlock) step()  {}
func (Watch) step()     {}
func (Fileless) step()  {}
func (Calls) step()     {}
func (Absent) step()    {}
func (Held) step()      {}
func (Overlaid) step()  {}
