package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Bounds of one image, unpacked.
const (
	maxBytes   = 64 << 30
	maxEntries = 4 << 20
	maxLinks   = 40 // followed for one path, as the kernel does
)

var errTooLarge = errors.New("larger than 64 GiB unpacked")

// unpacker lays layers into a folder, as image-spec's layer.md says. Every step
// goes through an os.Root, which no name leaves; links in the middle of a name
// are followed here, as if the folder were /.
type unpacker struct {
	root    *os.Root
	real    map[string]string // folders as named, to where they are
	made    map[string]bool   // by the layer at hand
	stream  int64             // bytes that may still come
	bytes   int64
	entries int64
	leftOut int64
}

func newUnpacker(dir string) (*unpacker, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	// Whatever this process's umask: the payload may be another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &unpacker{root: r, real: map[string]string{}, stream: maxBytes}, nil
}

func (u *unpacker) layer(r io.Reader) error {
	u.made = map[string]bool{}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not an archive: %w", err)
		}
		if u.entries++; u.entries > maxEntries {
			return fmt.Errorf("more than %d entries", maxEntries)
		}
		if err := u.entry(h, t); err != nil {
			return fmt.Errorf("%q: %w", h.Name, err)
		}
	}
}

// system are the folders that a cloister has its own of.
var system = []string{"dev", "proc", "sys", "run"}

// clean gives the name of an entry relative to the root. One that climbs is
// refused: no honest layer has it.
func clean(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", errors.New("a name with a zero byte")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", errors.New("a name that leads out of the image")
		}
	}
	return path.Clean(strings.TrimLeft(path.Clean("/"+name), "/")), nil
}

func (u *unpacker) entry(h *tar.Header, body io.Reader) error {
	name, err := clean(h.Name)
	if err != nil || name == "." || h.Typeflag == tar.TypeXGlobalHeader {
		return err
	}
	for _, dir := range system {
		if strings.HasPrefix(name, dir+"/") {
			u.leftOut++
			return nil
		}
	}
	dir, err := u.folder(path.Dir(name))
	if err != nil {
		return err
	}
	// Below these folders something of this layer lies, whoever made them.
	for up := dir; up != "."; up = path.Dir(up) {
		u.made[up] = true
	}
	at := path.Join(dir, path.Base(name))
	if hidden, ok := strings.CutPrefix(path.Base(name), ".wh."); ok {
		return u.whiteout(dir, hidden)
	}
	if err := u.makeWay(at, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	u.made[at] = true
	switch h.Typeflag {
	case tar.TypeDir:
		return u.makeFolder(at, h)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.makeFile(at, h, body)
	case tar.TypeSymlink:
		if h.Linkname == "" || strings.ContainsRune(h.Linkname, 0) {
			return errors.New("a symbolic link to nothing")
		}
		return u.root.Symlink(h.Linkname, at)
	case tar.TypeLink:
		return u.makeLink(at, h.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		u.leftOut++
		return nil
	}
	return fmt.Errorf("an entry of the unknown kind %q", h.Typeflag)
}

// folder makes the folders of a name and says where they are, links followed.
func (u *unpacker) folder(name string) (string, error) {
	if at, ok := u.real[name]; ok {
		return at, nil
	}
	at, todo, links := ".", strings.Split(name, "/"), 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		fi, err := u.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := u.root.Mkdir(next, 0o755); err != nil {
				return "", err
			}
			if err := u.root.Chmod(next, 0o755); err != nil {
				return "", err
			}
		case err != nil:
			return "", err
		case fi.Mode()&fs.ModeSymlink != 0:
			if links++; links > maxLinks {
				return "", errors.New("too many symbolic links")
			}
			to, err := u.root.Readlink(next)
			if err != nil {
				return "", err
			}
			if path.IsAbs(to) {
				at = "."
			}
			todo = append(strings.Split(to, "/"), todo...)
			continue
		case !fi.IsDir():
			return "", fmt.Errorf("%s is not a folder", next)
		}
		at = next
	}
	u.real[name] = at
	return at, nil
}

// makeWay removes what an entry replaces: everything but a folder by a folder.
func (u *unpacker) makeWay(at string, dir bool) error {
	fi, err := u.root.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || dir && fi.IsDir() {
		return err
	}
	return u.remove(at, fi)
}

func (u *unpacker) remove(at string, fi fs.FileInfo) error {
	if fi.IsDir() || fi.Mode()&fs.ModeSymlink != 0 {
		clear(u.real)
	}
	return u.root.RemoveAll(at)
}

// whiteout removes what lower layers put somewhere: one name, or everything in
// the folder for the name .wh..opq.
func (u *unpacker) whiteout(dir, hidden string) error {
	switch {
	case hidden == ".wh..opq":
		return u.prune(dir)
	case strings.HasPrefix(hidden, ".wh."):
		return nil // of aufs, for itself
	case hidden == "" || hidden == "." || hidden == "..":
		return errors.New("a whiteout of no name")
	}
	at := path.Join(dir, hidden)
	fi, err := u.root.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case u.made[at] && fi.IsDir(): // a whiteout hides lower layers only
		return u.prune(at)
	case u.made[at]:
		return nil
	}
	return u.remove(at, fi)
}

// prune empties a folder of everything that this layer did not put there.
func (u *unpacker) prune(dir string) error {
	f, err := u.root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		switch {
		case u.made[at] && e.IsDir():
			err = u.prune(at)
		case !u.made[at]:
			clear(u.real)
			err = u.root.RemoveAll(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
