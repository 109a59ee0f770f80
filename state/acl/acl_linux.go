package acl

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	accessName  = "system.posix_acl_access"
	defaultName = "system.posix_acl_default"
)

// maxList bounds a list: some 8,000 entries, which is the most that the kernel takes.
const maxList = 64 << 10

// At reads the lists of an entry of an open folder, and follows no link.
func At(dir int, name string) (*Lists, error) {
	at := fmt.Sprintf("/proc/self/fd/%d/%s", dir, name) // no call takes folder and name before Linux 6.13
	l := &Lists{}
	var err error
	if l.Access, err = get(at, accessName); err == nil {
		l.Default, err = get(at, defaultName)
	}
	if err != nil {
		return nil, fmt.Errorf("read the access list of %s: %w", name, err)
	}
	return l, nil
}

func get(at, name string) ([]byte, error) {
	var first [256]byte
	n, err := unix.Lgetxattr(at, name, first[:])
	if err == nil {
		return append([]byte(nil), first[:n]...), nil
	}
	if errors.Is(err, unix.ERANGE) {
		all := make([]byte, maxList)
		n, err = unix.Lgetxattr(at, name, all)
		return all[:max(0, n)], err
	}
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		err = nil
	}
	return nil, err
}

// Set gives an open file or folder these lists, and no other. It changes the mode: a caller that wants
// another sets that afterwards.
func (l *Lists) Set(fd int) error {
	return errors.Join(set(fd, accessName, l.Access), set(fd, defaultName, l.Default))
}

// NoDefault takes from an open folder what it had new entries get.
func NoDefault(fd int) error { return set(fd, defaultName, nil) }

func set(fd int, name string, list []byte) error {
	if len(list) > 0 {
		if err := unix.Fsetxattr(fd, name, list, 0); err != nil {
			return fmt.Errorf("set an access list: %w", err)
		}
		return nil
	}
	err := unix.Fremovexattr(fd, name)
	if err == nil || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return fmt.Errorf("remove an access list: %w", err)
}
