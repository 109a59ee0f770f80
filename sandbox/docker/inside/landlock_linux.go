package inside

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// rightsOf are Landlock's rights on files by the ABI that added them.
var rightsOf = map[int]uint64{
	1: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM,
	2: unix.LANDLOCK_ACCESS_FS_REFER,
	3: unix.LANDLOCK_ACCESS_FS_TRUNCATE,
}

// closeDoors puts this thread behind Landlock: the files of the view, and of the
// caller's descriptors what they were opened for. A file that was passed in lies
// outside the view and could otherwise be opened again by /proc/self/fd for more.
func closeDoors() error {
	abi, err := landlockVersion()
	passed, statErr := passedFiles()
	if statErr != nil {
		return statErr
	}
	if err != nil {
		if len(passed) > 0 {
			return fmt.Errorf("a file is the command's input or output, and this kernel has no Landlock to hold it to that: %w", err)
		}
		return nil // nothing of the host's is in reach
	}
	all := uint64(0)
	for from, rights := range rightsOf {
		if abi >= from {
			all |= rights
		}
	}
	ruleset, err := newRuleset(all)
	if err != nil {
		return fmt.Errorf("make Landlock's rules: %w", err)
	}
	defer unix.Close(ruleset)
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := allow(ruleset, root, all&^(unix.LANDLOCK_ACCESS_FS_MAKE_CHAR|unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)); err != nil {
		return fmt.Errorf("allow the view: %w", err)
	}
	for fd, rights := range passed {
		if err := allow(ruleset, fd, rights&all); err != nil {
			return fmt.Errorf("allow a standard descriptor: %w", err)
		}
	}
	if err := enterRuleset(ruleset); err != nil {
		return fmt.Errorf("enter Landlock: %w", err)
	}
	return nil
}

// passedFiles are the standard descriptors that are files, with what they were
// opened for.
func passedFiles() (map[int]uint64, error) {
	out := map[int]uint64{}
	for fd := range 3 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); errors.Is(err, unix.EBADF) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("look at a standard descriptor: %w", err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return nil, fmt.Errorf("look at a standard descriptor: %w", err)
		}
		const (
			reads  = unix.LANDLOCK_ACCESS_FS_READ_FILE
			writes = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
		)
		switch flags & unix.O_ACCMODE {
		case unix.O_RDONLY:
			out[fd] = reads
		case unix.O_WRONLY:
			out[fd] = writes
		default:
			out[fd] = reads | writes
		}
	}
	return out, nil
}
