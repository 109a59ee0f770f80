package parts

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// NoUpper says that overlayfs cannot keep what is written on a file system. Without extended
// attributes of users it lies there all the same, and fails later: it can neither remove a folder
// nor make one anew. Without whiteouts, on another overlay or over a network, it is refused by the
// kernel, in containers after they have started.
type NoUpper struct{ Dir, Lacks string }

func (n *NoUpper) Error() string {
	return fmt.Sprintf("%s lies on a file system without %s", n.Dir, n.Lacks)
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
		return &NoUpper{name, "extended attributes"}
	}
	if err == nil {
		err = unix.Fremovexattr(f.Fd(), attr)
	}
	if err != nil && !errors.Is(err, unix.ENODATA) { // another command may have removed it
		return fmt.Errorf("look for extended attributes of %s: %w", name, err)
	}
	return whiteouts(f.Fd(), name)
}
