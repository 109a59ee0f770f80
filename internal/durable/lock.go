package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Lock waits for the lock of a file, which is made where it is missing. Closing the file
// lets the next process go on, as the end of this one does.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// Edit replaces the JSON value of a file by what edit makes of the one that read gives, as
// one step for all who take the same lock. An error of read or edit leaves the file as it was.
func Edit[T any](path, lock string, read func() (T, error), edit func(T) (T, error)) error {
	f, err := Lock(lock)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer f.Close()
	value, err := read()
	if err != nil {
		return err
	}
	if value, err = edit(value); err != nil {
		return err
	}
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return WriteFile(path, append(text, '\n'), 0o600)
}
