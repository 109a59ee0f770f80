package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// mode is what is kept of an entry's: no set-id and no sticky bit, and always
// the owner's own rights, without which no one could remove it again.
func mode(h *tar.Header, least fs.FileMode) fs.FileMode { return fs.FileMode(h.Mode)&0o777 | least }

func (u *unpacker) makeFolder(at string, h *tar.Header) error {
	if err := u.root.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return u.root.Chmod(at, mode(h, 0o700))
}

func (u *unpacker) makeFile(at string, h *tar.Header, body io.Reader) error {
	// Holes take nothing of the stream, whose bytes are counted elsewhere.
	if h.Size > maxBytes-u.bytes {
		return errTooLarge
	}
	f, err := u.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, body)
	u.bytes += n
	if err == nil {
		err = f.Chmod(mode(h, 0o400))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	// Python and make compare times.
	if t := h.ModTime; t.After(time.Unix(0, 0)) {
		return u.root.Chtimes(at, t, t)
	}
	return nil
}

// makeLink links to a file of the image by its name in it.
func (u *unpacker) makeLink(at, target string) error {
	name, err := clean(target)
	if err != nil {
		return err
	}
	dir, err := u.folder(path.Dir(name))
	if err != nil {
		return err
	}
	to := path.Join(dir, path.Base(name))
	fi, err := u.root.Lstat(to)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("a hard link to %s, which is not there", target)
		}
		return err
	}
	if !fi.Mode().IsRegular() && fi.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("a hard link to %s, which is no file", target)
	}
	return u.root.Link(to, at)
}
