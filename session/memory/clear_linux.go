package memory

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile makes a file that is on no disk.
func memoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("memory", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), "memory"), nil
}

// unchangeable seals such a file, which is mapped nowhere, against every change. F_SEAL_WRITE says the same of it, and
// fails with EBUSY while the kernel has a page of it in hand, which came at a load of 60 with 250 MiB.
func unchangeable(f *os.File) error {
	const all = unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, all); err != nil {
		return fmt.Errorf("seal a file in memory: %w", err)
	}
	return nil
}

// held refuses a file in memory that says it is larger than the memory that it takes: a payload's kernel wrote it,
// and every byte of it comes to the disk.
func held(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at a file in memory: %w", err)
	}
	const slack = 4 << 20 // its last page may be a large one, and a piece of zeroes may be left out
	if st.Size > st.Blocks*512+slack {
		return fmt.Errorf("a file in memory says that it has %d bytes, and has %d", st.Size, st.Blocks*512)
	}
	return nil
}

// reopened gives files that others passed, with offsets of their own and to be read alone.
func reopened(files []*os.File) (out []*os.File, err error) {
	for _, f := range files {
		again, e := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if e != nil {
			err = errors.Join(err, fmt.Errorf("open the memory: %w", e))
			continue
		}
		out = append(out, again)
	}
	return out, err
}
