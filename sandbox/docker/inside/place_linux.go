package inside

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"cloister/sandbox"

	"golang.org/x/sys/unix"
)

// at resolves a name on the root's own file system: no mount, no link leads out.
func (v *viewer) at(name string, flags uint64) (int, error) {
	name = strings.TrimPrefix(name, "/")
	if name == "" {
		name = "."
	}
	return unix.Openat2(v.root, name, &unix.OpenHow{
		Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// folder makes a folder and those above it, where they are missing.
func (v *viewer) folder(name string) error {
	fd, err := v.at(name, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		return unix.Close(fd)
	}
	if name == "/" {
		return err
	}
	if err := v.folder(path.Dir(name)); err != nil {
		return err
	}
	up, err := v.at(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("make folder %s: %w", name, err)
	}
	defer unix.Close(up)
	err = unix.Mkdirat(up, path.Base(name), 0o755)
	if errors.Is(err, unix.EEXIST) {
		// The image has something else there: a file, or a link that leads nowhere.
		if err = unix.Unlinkat(up, path.Base(name), 0); err == nil {
			err = unix.Mkdirat(up, path.Base(name), 0o755)
		}
	}
	if err != nil {
		return fmt.Errorf("make folder %s: %w", name, err)
	}
	return nil
}

// above opens the folder of a name, made where it is missing, and takes away what
// the image has under the name, so that no link of it is followed.
func (v *viewer) above(name string) (int, error) {
	dir := path.Dir(name)
	if err := v.folder(dir); err != nil {
		return -1, err
	}
	return v.at(dir, unix.O_PATH|unix.O_DIRECTORY)
}

func (v *viewer) file(name string, data []byte, mode uint32) error {
	up, err := v.above(name)
	if err != nil {
		return err
	}
	defer unix.Close(up)
	if err := unix.Unlinkat(up, path.Base(name), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	fd, err := unix.Openat(up, path.Base(name), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		mode)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	return errors.Join(err, unix.Fchmod(fd, mode), f.Close())
}

func (v *viewer) link(l sandbox.Link) error {
	up, err := v.above(string(l.Path))
	if err != nil {
		return err
	}
	defer unix.Close(up)
	name := path.Base(string(l.Path))
	var st unix.Stat_t
	if err := unix.Fstatat(up, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return nil // what the image has there is as good
		}
		if err := unix.Unlinkat(up, name, 0); err != nil {
			return fmt.Errorf("replace %s: %w", l.Path, err)
		}
	}
	if err := unix.Symlinkat(l.Target, up, name); err != nil {
		return fmt.Errorf("link %s: %w", l.Path, err)
	}
	return nil
}

// maxNames bounds what is read of an image's lists of users and groups.
const maxNames = 1 << 20

// text reads a small file of the image; it is empty where there is none, or a link that leads out.
func (v *viewer) text(name string) (string, error) {
	fd, err := v.at(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return "", nil // the command gets ours
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxNames {
		return "", fmt.Errorf("the image's %s is no file of names", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxNames))
	return string(b), err
}
