package beside

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/devcontainer/services"
	"cloister/sandbox"
	"cloister/state/layers"
	"cloister/workspace/homes"
)

// Running says that the services of a project run already, for another cloister of it.
type Running struct{ Project string }

func (e *Running) Error() string {
	return "the services of " + e.Project + " run already, beside another cloister of it"
}

// Hints are the words of what to do.
func (*Running) Hints() []string {
	return []string{"two servers on one volume destroy it: end the other one (cloister list)",
		"or start this one without services: --image IMAGE"}
}

// lockWithin is how long one that has just ended may hold its lock.
const lockWithin = 2 * time.Second

// lock makes sure that the services of a project run once. Its file lies where no service
// writes.
func (p *Plan) lock() (*os.File, error) {
	if err := os.MkdirAll(p.folder, 0o700); err != nil {
		return nil, fmt.Errorf("start services: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(p.folder, "lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start services: %w", err)
	}
	for began := time.Now(); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, p.note()
		case errors.Is(err, unix.EINTR):
		case time.Since(began) > lockWithin:
			return nil, errors.Join(&Running{p.o.Project}, f.Close())
		default:
			<-time.After(20 * time.Millisecond)
		}
	}
}

// home is the folder that all volumes of a project's services are in: nothing shows it as a
// whole to any of them. It is one of the private homes, and known as such.
func (p *Plan) home() string { return homes.Of(p.o.Data, p.folder) }

// room is a member's own part of it.
func (p *Plan) room(m *member, more ...string) string {
	return filepath.Join(append([]string{p.home(), "service-" + m.Name}, more...)...)
}

// The folders of a room: kept from start to start, and empty at each.
const (
	kept    = "kept"
	scratch = "scratch"
)

// folderOf makes a folder that a payload may have closed to its own user.
func folderOf(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// clear removes what the last start left behind, also where it was killed.
func (p *Plan) clear(m *member) error {
	if err := folderOf(p.room(m)); err != nil {
		return fmt.Errorf("start %s: %w", m.Name, err)
	}
	if err := layers.RemoveAll(p.room(m), scratch); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("start %s: empty its folders: %w", m.Name, err)
	}
	return nil
}

// places are what a member sees besides its image: its private home is the one at home. Nothing
// of them is laid over the kept places.
func (p *Plan) places(m *member, keep ...string) ([]sandbox.Bind, error) {
	list := slices.Clone(m.Mounts)
	if m != p.agent {
		more := []services.Mount{{Kind: services.OfTmpfs, Target: "/run"}}
		if m.Image.Run != nil {
			for _, target := range m.Image.Run.Volumes {
				more = append(more, services.Mount{Kind: services.OfVolume, Target: path.Clean("/" + target)})
			}
		}
		for _, mount := range more {
			if mount.Target != "/" && !slices.ContainsFunc(list, func(o services.Mount) bool {
				return within(mount.Target, o.Target)
			}) {
				list = append(list, mount)
			}
		}
	}
	landed, err := m.lands(list, keep...)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", m.Name, err)
	}
	binds := []sandbox.Bind{}
	for i, mount := range list {
		if m == p.agent && mount.Kind == services.OfProject {
			continue // it has the project itself
		}
		b, err := p.place(m, mount)
		if err != nil {
			return nil, fmt.Errorf("start %s: %s: %w", m.Name, mount.Target, err)
		}
		b.Target = sandbox.GuestPath(landed[i].Target)
		binds = append(binds, b)
	}
	return binds, nil
}

// place makes one of them ready.
func (p *Plan) place(m *member, mount services.Mount) (sandbox.Bind, error) {
	sum := sha256.Sum256([]byte(mount.Target))
	id := hex.EncodeToString(sum[:6])
	b := sandbox.Bind{Target: sandbox.GuestPath(mount.Target), Access: sandbox.ReadWrite}
	if mount.ReadOnly {
		b.Access = sandbox.ReadOnly
	}
	var dir string
	switch mount.Kind {
	case services.OfTmpfs:
		dir = p.room(m, scratch, id)
	case services.OfProject:
		file, err := p.copied(mount.Source, p.room(m, scratch, id))
		b.Source, b.File = sandbox.HostPath(p.room(m, scratch, id)), file
		if file {
			b.Source = sandbox.HostPath(p.room(m, scratch, id, "file"))
		}
		return b, err
	case services.OfVolume:
		dir = p.room(m, kept, id)
		if mount.Source != "" {
			dir = filepath.Join(p.home(), "volumes", mount.Source)
		}
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			if err := p.filled(m, mount.Target, dir); err != nil {
				return b, err
			}
		}
	}
	b.Source = sandbox.HostPath(dir)
	return b, folderOf(dir)
}

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
