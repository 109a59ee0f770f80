package inside

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"cloister/sandbox/landlock"
	"cloister/sandbox/streams"
)

// closeDoors puts this thread behind Landlock: the files of the view, of which the
// mounts say what may be written, and of the caller's descriptors what they were
// opened for. A file that was passed in lies outside the view and could otherwise be
// opened again by /proc/self/fd for more.
func closeDoors(writable []string) error {
	abi, err := landlock.Version()
	passed, statErr := passedFiles(abi)
	if statErr != nil {
		return statErr
	}
	if err != nil {
		if len(passed) > 0 {
			return fmt.Errorf("a file is the command's input or output, and this kernel has no Landlock to hold it to that: %w",
				err)
		}
		return nil // nothing of the host's is in reach
	}
	return landlock.Enter(abi, writable, passed)
}

// passedFiles are the standard descriptors that are files, with what they were
// opened for.
func passedFiles(abi int) (map[int]uint64, error) {
	out := map[int]uint64{}
	for fd := range 3 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); errors.Is(err, unix.EBADF) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("look at a standard descriptor: %w", err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG || streams.Memory(fd) {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return nil, fmt.Errorf("look at a standard descriptor: %w", err)
		}
		out[fd] = landlock.Opened(abi, flags)
	}
	return out, nil
}
