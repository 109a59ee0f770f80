package resolve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// An Entry is a name of a folder with the kind that the kernel's list has for it.
type Entry struct {
	dir, name string
	kind      fs.FileMode
	known     bool
	stat      Stat
}

// Name is the name in its folder.
func (e *Entry) Name() string { return e.name }

// IsDir reports whether it is a folder.
func (e *Entry) IsDir() bool { return e.kind.IsDir() }

// Type is its kind.
func (e *Entry) Type() fs.FileMode { return e.kind }

// Info looks at it by its path.
func (e *Entry) Info() (fs.FileInfo, error) { return os.Lstat(e.dir + "/" + e.name) }

func (e *Entry) String() string { return fs.FormatDirEntry(e) }

// Stat is what there is to know of it. It is looked at once: with its folder, where that was
// wanted, or when it is first asked for.
func (e *Entry) Stat() (Stat, error) {
	if e.known {
		return e.stat, nil
	}
	st, err := lstat(e.dir + "/" + e.name)
	e.stat, e.known = st, err == nil
	return st, err
}

// Forget has the next Stat look anew.
func (e *Entry) Forget() { e.known = false }

// lists are the buffers for getdents64: a start reads many folders, and memory that the
// kernel has to find anew costs more than the reading.
var lists = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// ReadDir lists a folder by name, and fails where a link lies on the way. It takes four
// calls of the kernel's for a small folder, where [os.File] takes nine.
func ReadDir(path string) ([]fs.DirEntry, error) {
	block, err := list(path, nil, nil)
	slices.SortFunc(block, func(a, b Entry) int { return strings.Compare(a.name, b.name) })
	out := make([]fs.DirEntry, len(block))
	for i := range block {
		out[i] = &block[i]
	}
	return out, err
}

// List is ReadDir in no order. It also looks at those entries which are wanted: by the
// folder's descriptor, which spares the kernel the way to it. self is what the folder was
// before its names were read.
func List(path string, wanted func(*Entry) bool) (self Stat, entries []Entry, err error) {
	entries, err = list(path, &self, wanted)
	return self, entries, err
}

func list(path string, self *Stat, wanted func(*Entry) bool) ([]Entry, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if self != nil {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, &fs.PathError{Op: "fstat", Path: path, Err: err}
		}
		*self = statOf(&st)
	}
	buf, _ := lists.Get().(*[]byte)
	defer lists.Put(buf)
	var block []Entry
	for {
		n, err := unix.Getdents(fd, *buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return block, &fs.PathError{Op: "readdirent", Path: path, Err: err}
		}
		if n == 0 {
			break
		}
		block = parseDir(slices.Grow(block, n/direntUsual), path, (*buf)[:n])
	}
	if wanted != nil {
		lookAt(fd, block, wanted)
	}
	return block, nil
}

// Look looks at those entries of a folder which are wanted, of one that was listed before.
func Look(path string, entries []Entry, wanted func(*Entry) bool) error {
	fd, err := open(path, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	lookAt(fd, entries, wanted)
	return nil
}

func lookAt(dir int, entries []Entry, wanted func(*Entry) bool) {
	var st unix.Stat_t
	for i := range entries {
		if e := &entries[i]; wanted(e) && unix.Fstatat(dir, e.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			e.stat, e.known = statOf(&st), true
		}
	}
}

// KeepsTimes reports whether a file system is one of this kernel's own that gives a folder
// another change time with each name that comes or goes: not a server's or a program's, nor
// one that shows the times of another.
func KeepsTimes(path string) bool {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return false
	}
	switch int64(st.Type) { // narrower elsewhere
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
		return true
	}
	return false
}

// ReadFile reads a regular file of at most so many bytes, and fails where a link lies
// on the way.
func ReadFile(path string, most int64) ([]byte, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	text := make([]byte, 0, min(st.Size, most)+1)
	for {
		if len(text) == cap(text) {
			text = slices.Grow(text, 4096)
		}
		n, err := unix.Read(fd, text[len(text):cap(text)])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return text, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		text = text[:len(text)+n]
		switch {
		case int64(len(text)) > most:
			return text[:most+1], fmt.Errorf("read %s: more than %d bytes", path, most)
		case n == 0:
			return text, nil
		}
	}
}

// Where the parts of a linux_dirent64 begin: getdents(2).
const (
	direntSize = 16
	direntKind = 18
	direntName = 19
	// direntUsual is the size of one with a name of five to twelve bytes.
	direntUsual = 32
)

// parseDir reads an answer of getdents64.
func parseDir(block []Entry, dir string, buf []byte) []Entry {
	all := string(buf) // one piece of memory for all names
	for at := 0; at+direntName <= len(buf); {
		size := int(binary.NativeEndian.Uint16(buf[at+direntSize:]))
		if size < direntName || at+size > len(buf) {
			break
		}
		name, _, _ := strings.Cut(all[at+direntName:at+size], "\x00")
		if name != "." && name != ".." && binary.NativeEndian.Uint64(buf[at:]) != 0 {
			if kind, ok := kindOf(buf[at+direntKind], dir, name); ok {
				block = append(block, Entry{dir: dir, name: name, kind: kind})
			}
		}
		at += size
	}
	return block
}

// kindOf is the kind of an entry; ok is false for one that went meanwhile.
func kindOf(kind byte, dir, name string) (fs.FileMode, bool) {
	switch kind {
	case unix.DT_REG:
		return 0, true
	case unix.DT_DIR:
		return fs.ModeDir, true
	case unix.DT_LNK:
		return fs.ModeSymlink, true
	case unix.DT_SOCK:
		return fs.ModeSocket, true
	case unix.DT_FIFO:
		return fs.ModeNamedPipe, true
	case unix.DT_CHR:
		return fs.ModeDevice | fs.ModeCharDevice, true
	case unix.DT_BLK:
		return fs.ModeDevice, true
	}
	fi, err := os.Lstat(dir + "/" + name) // the file system does not say
	if err != nil {
		return fs.ModeIrregular, !errors.Is(err, fs.ErrNotExist)
	}
	return fi.Mode().Type(), true
}
