package parts

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// NoAttributes says that a file system keeps no extended attributes of users. Overlayfs lies on
// it all the same, and fails later: it can neither remove a folder there nor make one anew.
type NoAttributes struct{ Dir string }

func (n *NoAttributes) Error() string {
	return fmt.Sprintf("%s lies on a file system without extended attributes", n.Dir)
}

// Attributes refuses a folder in which no layer can lie. Every driver lays an overlay with
// userxattr, root's too, so that one name is tried.
func Attributes(name string) (err error) {
	const attr = "user.overlay.cloister"
	f, err := layers.OpenFolder(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	err = unix.Fsetxattr(f.Fd(), attr, []byte("y"), 0)
	if errors.Is(err, unix.ENOTSUP) {
		return &NoAttributes{name}
	}
	if err == nil {
		err = unix.Fremovexattr(f.Fd(), attr)
	}
	if err != nil && !errors.Is(err, unix.ENODATA) { // another command may have removed it
		return fmt.Errorf("look for extended attributes of %s: %w", name, err)
	}
	return nil
}
