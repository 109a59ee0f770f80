// Package taint is the durable register of the places that a payload could ever
// write: projects, the git folders of worktrees, private homes, folders that were
// exposed writable.
//
// The promise: a place is on the disk before [Register.Enter] returns, and stays in
// the register for as long as the register exists. It is known by its name and, should
// it be moved, by its device, inode and time of birth. A register that cannot be
// understood is an error that names the file and the line, never an empty one.
//
// It does not judge: what may be done with a path in such a place is the matter of
// host/resolve and of its users.
//
// Most readers want [Read], [Register.Enter] and [Register.Over].
package taint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Kinds of places.
const (
	Project = "project" // a working tree that a session had as its own; it has a Pin
	Git     = "git"     // the git folder of a worktree, outside of it
	Private = "private" // Cloister's own folders for private homes and worktrees
	Exposed = "exposed" // a folder or file that was shown writable

	forgotten = "forgotten" // the Pin of a project is over; the place stays tainted
)

// A Place is a folder or a file that a payload could write.
type Place struct {
	Kind string
	Path string // without symbolic links
	ID   ID
	Pin  Pin // of a Project
}

// ID is what a file is whatever it is called: its inode. Born is its time of birth in
// nanoseconds, and 0 where the file system does not keep one. It tells an inode from
// one that had the same number before.
type ID struct {
	Dev, Ino uint64
	Born     int64
}

// Same reports whether two IDs are of one file. The number of a device may change from
// one start of the machine to the next; number and birth together do not.
func (i ID) Same(o ID) bool {
	if i.Ino != o.Ino || i.Ino == 0 {
		return false
	}
	if i.Born != 0 && o.Born != 0 {
		return i.Born == o.Born
	}
	return i.Dev == o.Dev
}

// most bounds the register: a hundred thousand places.
const most = 32 << 20

const header = "cloister places 1\n"

// Register is what the file said when it was read.
type Register struct {
	file   string
	names  map[string]int   // the last place of each name
	inodes map[uint64][]int // by inode number
	pins   map[string]int
	all    []Place
}

// File is the register of one instance, in its state folder.
func File(state string) string { return filepath.Join(state, "places") }

// Bad is a register that cannot be understood.
type Bad struct {
	File, Why string
	Line      int
}

func (e *Bad) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("read the register of places that cloisters could write: %s: %s", e.File, e.Why)
	}
	return fmt.Sprintf("read the register of places that cloisters could write: %s:%d: %s", e.File, e.Line, e.Why)
}

// Hints are the words of what to do.
func (e *Bad) Hints() []string {
	return []string{"restore it from a backup, or remove that line; without the file, Cloister no longer knows which " +
		"folders payloads could write"}
}

// Read reads the register of an instance. One that is not there is empty.
func Read(state string) (*Register, error) {
	r := &Register{file: File(state), names: map[string]int{}, inodes: map[uint64][]int{}, pins: map[string]int{}}
	f, err := os.OpenFile(r.file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, &Bad{File: r.file, Why: errors.Unwrap(err).Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("read the register of places: %w", err)
	}
	defer f.Close()
	text, err := r.text(f)
	if err != nil {
		return nil, err
	}
	return r, r.parse(text)
}

func (r *Register) add(p Place) {
	if p.Kind == forgotten {
		delete(r.pins, p.Path)
		return
	}
	at := len(r.all)
	r.all = append(r.all, p)
	r.names[p.Path] = at
	if p.ID.Ino != 0 {
		r.inodes[p.ID.Ino] = append(r.inodes[p.ID.Ino], at)
	}
	if p.Kind == Project {
		r.pins[p.Path] = at
	}
}

// Enter adds places, and returns when they are on the disk. Those that are known
// already cost one look at each.
func (r *Register) Enter(places ...Place) error {
	var text strings.Builder
	for _, p := range places {
		if !filepath.IsAbs(p.Path) || filepath.Clean(p.Path) != p.Path {
			return fmt.Errorf("enter %q as a place that a cloister can write: not a whole path", p.Path)
		}
		if p.ID == (ID{}) {
			fi, err := Look(p.Path)
			if err != nil {
				return fmt.Errorf("enter %s as a place that a cloister can write: %w", p.Path, err)
			}
			p.ID = fi.ID
		}
		if !r.knows(p) {
			text.WriteString(p.line())
			r.add(p)
		}
	}
	return r.append(text.String())
}

func (r *Register) knows(p Place) bool {
	at, ok := r.names[p.Path]
	if p.Kind == Project {
		at, ok = r.pins[p.Path]
	}
	return ok && r.all[at].ID == p.ID && (p.Kind != Project || r.all[at].Pin == p.Pin)
}

// Forget ends the pin of one working tree, at a person's word. What a payload could
// write there stays known.
func (r *Register) Forget(path string) error {
	if _, ok := r.pins[path]; !ok {
		return nil
	}
	p := Place{Kind: forgotten, Path: path}
	r.add(p)
	return r.append(p.line())
}

// ForgetOf ends the pins of all working trees of a project.
func (r *Register) ForgetOf(main string) error {
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(r.pins)) {
		if path == main || r.all[r.pins[path]].Pin.Main == main {
			p := Place{Kind: forgotten, Path: path}
			r.add(p)
			text.WriteString(p.line())
		}
	}
	return r.append(text.String())
}

func (r *Register) append(text string) error {
	if text == "" {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(r.file), 0o700)
	if err != nil {
		return fmt.Errorf("write the register of places: %w", err)
	}
	f, err := os.OpenFile(r.file, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("write the register of places: %w", err)
	}
	defer f.Close()
	if err := r.sound(f); err != nil {
		return err
	}
	if err := flock(f, unix.LOCK_EX); err != nil {
		return fmt.Errorf("write the register of places: %w", err)
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("write the register of places: %w", err)
	}
	if end, err = whole(f, end); err != nil {
		return fmt.Errorf("write the register of places: %w", err)
	}
	if end == 0 {
		text = header + text
	}
	if end+int64(len(text)) > most {
		return &Bad{File: r.file, Why: fmt.Sprintf("more than %d bytes", most)}
	}
	if _, err = f.WriteAt([]byte(text), end); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the register of places: %w", err)
	}
	return nil
}

// whole cuts a last line off that was never finished, and gives the end.
func whole(f *os.File, end int64) (int64, error) {
	buf := make([]byte, 4096)
	for at := end; at > 0; {
		n := min(at, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], at-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			if at = at - n + int64(i) + 1; at == end {
				return end, nil
			}
			return at, f.Truncate(at)
		}
		at -= n
	}
	return 0, f.Truncate(0)
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Named gives the place that a path without links is or lies in, by names alone.
func (r *Register) Named(path string) (Place, bool) {
	if len(r.all) == 0 {
		return Place{}, false
	}
	for at := path; ; at = filepath.Dir(at) {
		if i, ok := r.names[at]; ok {
			return r.all[i], true
		}
		if at == filepath.Dir(at) {
			return Place{}, false
		}
	}
}

// Is gives the place that an inode is, by whatever name.
func (r *Register) Is(id ID) (Place, bool) {
	for _, i := range r.inodes[id.Ino] {
		if r.all[i].ID.Same(id) {
			return r.all[i], true
		}
	}
	return Place{}, false
}

// Over gives the place that a path without links is or lies in, by its name or by
// the inode of a folder on the way.
func (r *Register) Over(path string) (Place, bool) {
	if p, ok := r.Named(path); ok || len(r.all) == 0 {
		return p, ok
	}
	for at := path; ; at = filepath.Dir(at) {
		if fi, err := Look(at); err == nil {
			if p, ok := r.Is(fi.ID); ok {
				return p, true
			}
		}
		if at == filepath.Dir(at) {
			return Place{}, false
		}
	}
}
