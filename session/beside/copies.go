package beside

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// mostCopied bounds the files of an image that a new volume begins with.
const mostCopied = 256 << 20

// filled makes a new volume of what the image has at its place, as engines do. It is seen
// whole or not at all.
func (p *Plan) filled(m *member, target, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".new-")
	if err != nil {
		return err
	}
	if m.Root.Dir != "" {
		err = copyImage(string(m.Root.Dir), strings.TrimPrefix(target, "/"), tmp)
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}

// copyImage copies a folder of an image. Its links stay links, which lead nowhere but inside.
func copyImage(image, rel, dir string) error {
	root, err := os.OpenRoot(image)
	if err != nil {
		return err
	}
	defer root.Close()
	from, err := root.OpenRoot(rel)
	if err != nil {
		return nil // the image has no folder there
	}
	defer from.Close()
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	left := int64(mostCopied)
	return fs.WalkDir(from.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			return to.Mkdir(name, 0o700|info.Mode().Perm())
		case e.Type() == fs.ModeSymlink:
			target, err := from.Readlink(name)
			if err != nil {
				return err
			}
			return to.Symlink(target, name)
		case !e.Type().IsRegular():
			return nil
		}
		if left -= info.Size(); left < 0 {
			return fmt.Errorf("the image has more than %d MiB there", mostCopied>>20)
		}
		in, err := from.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		return write(to, name, info.Mode().Perm(), in)
	})
}

func write(to *os.Root, name string, mode fs.FileMode, from io.Reader) error {
	f, err := to.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600|mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// copied lays a file or folder of the project down; a file is called "file".
func (p *Plan) copied(rel, dir string) (file bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	r, w := io.Pipe()
	packed := make(chan struct{})
	go func() {
		defer close(packed)
		t := tar.NewWriter(w)
		err := p.o.Copy(rel, t)
		if err == nil {
			err = t.Close() // its end is that of a whole copy
		}
		_ = w.CloseWithError(err) // it returns nil
	}()
	file, err = unpack(tar.NewReader(r), dir)
	_ = r.Close() // ends the packing, should it still go on
	<-packed
	return file, err
}

func unpack(t *tar.Reader, dir string) (file bool, err error) {
	to, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer to.Close()
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return file, nil
		}
		if err != nil {
			return file, err
		}
		name := path.Clean(h.Name)
		switch {
		case h.Typeflag == tar.TypeReg && name == ".":
			file = true
			err = write(to, "file", fs.FileMode(h.Mode).Perm(), t)
		case h.Typeflag == tar.TypeDir:
			err = to.Mkdir(name, 0o700|fs.FileMode(h.Mode).Perm())
		case h.Typeflag == tar.TypeSymlink:
			err = to.Symlink(h.Linkname, name)
		case h.Typeflag == tar.TypeReg:
			err = write(to, name, fs.FileMode(h.Mode).Perm(), t)
		}
		if err != nil {
			return file, err
		}
	}
}
