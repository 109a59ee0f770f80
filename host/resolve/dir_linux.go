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

// entry is a name of a folder with the kind that the kernel's list has for it.
type entry struct {
	dir, name string
	kind      fs.FileMode
	known     bool
	stat      Stat
}

func (e *entry) Name() string               { return e.name }
func (e *entry) IsDir() bool                { return e.kind.IsDir() }
func (e *entry) Type() fs.FileMode          { return e.kind }
func (e *entry) Info() (fs.FileInfo, error) { return os.Lstat(e.dir + "/" + e.name) }
func (e *entry) String() string             { return fs.FormatDirEntry(e) }

// lists are the buffers for getdents64: a start reads many folders, and memory that the
// kernel has to find anew costs more than the reading.
var lists = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// ReadDir lists a folder by name, and fails where a link lies on the way. It takes four
// calls of the kernel's for a small folder, where [os.File] takes nine.
func ReadDir(path string) ([]fs.DirEntry, error) {
	return ReadDirStat(path, func(fs.DirEntry) bool { return false })
}

// ReadDirStat is ReadDir that also looks at those entries which are wanted, so that [Lstat]
// of them is known: by the folder's descriptor, which spares the kernel the way to it.
func ReadDirStat(path string, wanted func(fs.DirEntry) bool) ([]fs.DirEntry, error) {
	fd, err := open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	buf, _ := lists.Get().(*[]byte)
	defer lists.Put(buf)
	var block []entry
	for {
		n, err := unix.Getdents(fd, *buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return entries(block), &fs.PathError{Op: "readdirent", Path: path, Err: err}
		}
		if n == 0 {
			break
		}
		block = parseDir(slices.Grow(block, n/direntUsual), path, (*buf)[:n])
	}
	var st unix.Stat_t
	for i := range block {
		if e := &block[i]; wanted(e) && unix.Fstatat(fd, e.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			e.stat, e.known = statOf(&st), true
		}
	}
	return entries(block), nil
}

// Lstat is what there is to know of an entry of a folder.
func Lstat(dir string, e fs.DirEntry) (Stat, error) {
	if e, ok := e.(*entry); ok && e.known {
		return e.stat, nil
	}
	return lstat(dir + "/" + e.Name())
}

// entries sorts what was read by name.
func entries(block []entry) []fs.DirEntry {
	slices.SortFunc(block, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	out := make([]fs.DirEntry, len(block))
	for i := range block {
		out[i] = &block[i]
	}
	return out
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
func parseDir(block []entry, dir string, buf []byte) []entry {
	all := string(buf) // one piece of memory for all names
	for at := 0; at+direntName <= len(buf); {
		size := int(binary.NativeEndian.Uint16(buf[at+direntSize:]))
		if size < direntName || at+size > len(buf) {
			break
		}
		name, _, _ := strings.Cut(all[at+direntName:at+size], "\x00")
		if name != "." && name != ".." && binary.NativeEndian.Uint64(buf[at:]) != 0 {
			if kind, ok := kindOf(buf[at+direntKind], dir, name); ok {
				block = append(block, entry{dir: dir, name: name, kind: kind})
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
