package layers

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Unpacker makes layers of an archive that anyone may have written. It makes files,
// folders, links and whiteouts below one folder that no one else writes to, each new, and
// nothing through a link; without set-id bits, attributes but overlayfs's opaque, or
// owners of the archive's choice. What is in a folder must follow it before anything
// else does, so that what it remembers has the size of one path.
type Unpacker struct {
	uid  int // owner of what is made; -1 leaves it
	gid  int
	open []unpacking // the folder of the layer, and those that its newest entry lies in
}

// unpacking is a folder that is being filled. Its mode and time come last.
type unpacking struct {
	*Folder

	path  string // in the layer; "." for the layer itself
	mode  uint32
	mtime time.Time
}

// NewUnpacker begins in an empty folder.
func NewUnpacker(dir string, uid, gid int) (*Unpacker, error) {
	top, err := OpenLayer(dir)
	if err != nil {
		return nil, err
	}
	return &Unpacker{uid: uid, gid: gid, open: []unpacking{{Folder: top, path: "."}}}, nil
}

// Finish ends the layer.
func (u *Unpacker) Finish() error { return u.leave(0) }

// leave gives the open folders from a depth on their modes and times, the deepest first.
func (u *Unpacker) leave(depth int) (err error) {
	for len(u.open) > depth {
		last := u.open[len(u.open)-1]
		u.open = u.open[:len(u.open)-1]
		var ferr error
		if last.path != "." {
			above := u.open[len(u.open)-1].Folder
			ferr = u.finish(above, path.Base(last.path), last.mode, last.mtime)
		}
		err = errors.Join(err, last.Close(), ferr)
	}
	return err
}

// enter finds the open folder that an entry belongs to, and leaves those below it.
func (u *Unpacker) enter(name string) (*Folder, error) {
	above := path.Dir(name)
	for i, f := range slices.Backward(u.open) {
		if f.path == above {
			return f.Folder, u.leave(i + 1)
		}
	}
	return nil, errors.New("it does not follow its folder")
}

// checkName refuses what is no path below a folder in its plainest spelling.
func checkName(name string) error {
	switch {
	case name == "" || len(name) > unix.PathMax || strings.ContainsRune(name, 0):
	case path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
	case strings.Count(name, "/") > maxDepth:
	default:
		return nil
	}
	return fmt.Errorf("%.100q is no name of an entry", name)
}

// Add makes one entry. Its name and a hard link's target are relative to the folder.
func (u *Unpacker) Add(h *tar.Header, content io.Reader) (err error) {
	h.Name = strings.TrimSuffix(h.Name, "/")
	if err := checkName(h.Name); err != nil {
		return err
	}
	dir, err := u.enter(h.Name)
	if err != nil {
		return fmt.Errorf("unpack %q: %w", h.Name, err)
	}
	name := path.Base(h.Name)
	switch h.Typeflag {
	case tar.TypeReg:
		err = u.file(dir, name, h, content)
	case tar.TypeDir:
		err = u.folder(dir, name, h)
	case tar.TypeSymlink:
		err = unix.Symlinkat(h.Linkname, dir.fd, name)
	case tar.TypeLink:
		return u.link(dir, name, h)
	case tar.TypeChar:
		if h.Devmajor != 0 || h.Devminor != 0 {
			return fmt.Errorf("unpack %q: it is a device", h.Name)
		}
		if err := mknodWhiteout(dir.fd, name); err != nil {
			return fmt.Errorf("unpack %q: %w", h.Name, err)
		}
		return u.own(dir, name)
	default:
		return fmt.Errorf("unpack %q: it is neither file, folder nor link", h.Name)
	}
	if err != nil {
		return fmt.Errorf("unpack %q: %w", h.Name, err)
	}
	if h.Typeflag == tar.TypeDir {
		return nil
	}
	mode := uint32(h.Mode) & 0o777
	if h.Typeflag == tar.TypeSymlink {
		mode = noMode
	}
	return u.finish(dir, name, mode, h.ModTime)
}

func (u *Unpacker) folder(dir *Folder, name string, h *tar.Header) error {
	if err := unix.Mkdirat(dir.fd, name, 0o700); err != nil {
		return err
	}
	if err := u.own(dir, name); err != nil {
		return err
	}
	sub, err := dir.Folder(name)
	if err != nil {
		return err
	}
	u.open = append(u.open, unpacking{sub, h.Name, uint32(h.Mode) & 0o777, h.ModTime})
	if h.PAXRecords[paxOpaque] != "y" {
		return nil
	}
	return unix.Fsetxattr(sub.fd, "user.overlay.opaque", []byte("y"), 0)
}

func (u *Unpacker) file(dir *Folder, name string, h *tar.Header, content io.Reader) (err error) {
	size, spans := h.Size, []span{{0, h.Size}}
	if text := h.PAXRecords[paxSparse]; text != "" {
		if size, spans, err = parseSpans(text, h.Size); err != nil {
			return err
		}
	}
	fd, err := unix.Openat(dir.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), name)
	defer func() { err = errors.Join(err, out.Close()) }()
	for _, s := range spans {
		if _, err := io.CopyN(io.NewOffsetWriter(out, s.at), content, s.size); err != nil {
			return err
		}
	}
	return out.Truncate(size)
}

// link makes another name of a file that this archive brought.
func (u *Unpacker) link(dir *Folder, name string, h *tar.Header) (err error) {
	if err := checkName(h.Linkname); err != nil {
		return err
	}
	from, base, err := Parent(u.open[0].Folder, h.Linkname)
	if err != nil {
		return fmt.Errorf("unpack %q: %w", h.Name, err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	node, removed, err := from.stat(base)
	if err == nil && (removed || node.Kind != File) {
		err = fs.ErrInvalid
	}
	if err == nil {
		err = unix.Linkat(from.fd, base, dir.fd, name, 0)
	}
	if err != nil {
		return fmt.Errorf("unpack %q: link to %q: %w", h.Name, h.Linkname, err)
	}
	return nil
}

func (u *Unpacker) own(dir *Folder, name string) error {
	if u.uid < 0 {
		return nil
	}
	return unix.Fchownat(dir.fd, name, u.uid, u.gid, unix.AT_SYMLINK_NOFOLLOW)
}

// noMode is for links, which have none.
const noMode = ^uint32(0)

func (u *Unpacker) finish(dir *Folder, name string, mode uint32, mtime time.Time) error {
	if err := u.own(dir, name); err != nil {
		return err
	}
	if mode != noMode {
		if err := Chmod(dir.fd, name, mode); err != nil {
			return dir.error("chmod", name, err)
		}
	}
	at, err := unix.TimeToTimespec(mtime)
	if err != nil {
		return fmt.Errorf("unpack %q: %w", name, err)
	}
	return unix.UtimesNanoAt(dir.fd, name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}
