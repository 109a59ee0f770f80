package localuser

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ids are the ids that payloads may have: each box has one that no other has.
type ids struct {
	first, count int
	locks        string
}

// take takes one, until this process ends: the kernel lets go of the lock. It is 0 where
// there are none.
func (i ids) take() (int, error) {
	if i.first <= 0 {
		return 0, nil
	}
	for id := i.first; id < i.first+i.count; id++ {
		fd, err := unix.Open(filepath.Join(i.locks, strconv.Itoa(id)),
			unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return 0, fmt.Errorf("start user: take an id: %w", err)
		}
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return id, nil
		}
		unix.Close(fd)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return 0, fmt.Errorf("start user: take an id: %w", err)
		}
	}
	return 0, fmt.Errorf("start user: all %d ids of payloads are in use", i.count)
}
