// Package streams looks at the caller's standard descriptors before a driver hands
// them to a command.
//
// The promise: a terminal is never handed in, only relayed; a folder or a disk, which
// would be a way out of the view, is refused; and where the command runs as another
// user than the caller, it may open the caller's pipes again by name (/dev/stdout),
// each only in the direction that it was handed over for. The package moves no bytes
// and changes no file on disk. Most readers want Look.
package streams

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Stream is what one standard descriptor is.
type Stream struct {
	Terminal bool
	// File says that it is a regular file, which Landlock holds to what it was
	// opened for: Flags. Pipes, sockets and memory files are none.
	File  bool
	Flags int
}

var names = [3]string{"standard input", "standard output", "standard error"}

// Look looks at descriptor i of the three. foreign says that the command will run as
// another user than the caller.
func Look(i int, f *os.File, foreign bool) (Stream, error) {
	name := names[i]
	if f == nil {
		return Stream{}, fmt.Errorf("%s is missing", name)
	}
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Stream{}, fmt.Errorf("look at %s: %w", name, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFBLK:
		return Stream{}, fmt.Errorf("%s is a folder or a disk, which would be a way out of the cloister", name)
	case unix.S_IFCHR:
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		return Stream{Terminal: err == nil}, nil
	case unix.S_IFIFO:
		if !foreign {
			return Stream{}, nil
		}
		if err := openPipe(fd, st.Mode); err != nil {
			return Stream{}, fmt.Errorf("open %s to the command's user: %w", name, err)
		}
		return Stream{}, nil
	case unix.S_IFREG:
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return Stream{}, fmt.Errorf("look at %s: %w", name, err)
		}
		if !Memory(fd) {
			return Stream{File: true, Flags: flags}, nil
		}
		if flags&unix.O_ACCMODE != unix.O_RDWR {
			return Stream{}, fmt.Errorf("%s is a memory file (memfd_create) that was opened in one direction only, "+
				"to which no kernel holds the command; pass a pipe instead", name)
		}
		return Stream{}, nil
	default:
		return Stream{}, nil
	}
}

// Memory reports whether a descriptor is a memory file. It lies on a mount of the
// kernel's own, for which Landlock takes no rule (EBADFD) and which it leaves alone.
func Memory(fd int) bool {
	buf := make([]byte, 64)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	return err == nil && strings.HasPrefix(string(buf[:n]), "/memfd:")
}

// pipeFS is the file system of pipes without a name (PIPEFS_MAGIC).
const pipeFS = 0x50495045

// openPipe gives everybody the direction of a pipe's end, while its owner keeps both.
// Who has no descriptor of a pipe without a name reaches it by /proc alone, which
// shows a process's descriptors only to those that may trace it.
func openPipe(fd int, mode uint32) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type != pipeFS {
		return nil // a pipe with a name has the mode that its owner gave it
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	also := map[int]uint32{unix.O_RDONLY: 0o004, unix.O_WRONLY: 0o002, unix.O_RDWR: 0o006}[flags&unix.O_ACCMODE]
	if mode&also == also {
		return nil
	}
	return unix.Fchmod(fd, mode&0o777|also)
}
