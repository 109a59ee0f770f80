package git

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// hold bounds a git that reads what came from inside (prlimit(2)). It has been
// started, and been given nothing yet.
func (l limits) hold(pid int) error {
	for _, one := range []struct {
		what  int
		bytes uint64
	}{{unix.RLIMIT_DATA, l.memory}, {unix.RLIMIT_FSIZE, l.file}, {unix.RLIMIT_CPU, l.seconds}, {unix.RLIMIT_CORE, 0}} {
		err := unix.Prlimit(pid, one.what, &unix.Rlimit{Cur: one.bytes, Max: one.bytes}, nil)
		if errors.Is(err, unix.ESRCH) {
			return nil // it has ended
		}
		if err != nil {
			return fmt.Errorf("bound git: %w", err)
		}
	}
	return nil
}
