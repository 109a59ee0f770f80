package layers

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// Copy copies a layer into an empty folder: names, content, modes, times, owners, hard
// links, whiteouts and opaque folders.
func Copy(ctx context.Context, from, to string) error {
	src, err := OpenLayer(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := OpenLayer(to)
	if err != nil {
		return err
	}
	defer func() { _ = dst.Close() }()
	c := &copier{ctx: ctx, top: dst, linked: map[uint64]string{}}
	if err := c.folder(src, dst, "", 0); err != nil {
		return fmt.Errorf("copy layer: %w", err)
	}
	return nil
}

type copier struct {
	ctx    context.Context
	top    *Folder           // where the copy is made
	linked map[uint64]string // inodes with several names: the path of the first copy
}

func (c *copier) folder(src, dst *Folder, rel string, depth int) error {
	if depth > maxDepth {
		return &TooMany{src.name, fmt.Sprintf("more than %d folders in each other", maxDepth)}
	}
	names, err := src.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := c.entry(src, dst, path.Join(rel, name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) entry(src, dst *Folder, rel string, depth int) error {
	name := path.Base(rel)
	var st unix.Stat_t
	if err := unix.Fstatat(src.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil // removed while it was copied
		}
		return src.error("stat", name, err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && st.Nlink > 1 && !whiteout(&st) {
		if first, ok := c.linked[st.Ino]; ok {
			return c.link(first, dst, name)
		}
		defer func() { c.linked[st.Ino] = rel }()
	}
	var err error
	switch kind {
	case unix.S_IFREG:
		err = c.file(src, dst, name)
	case unix.S_IFDIR:
		err = c.subfolder(src, dst, rel, depth)
	case unix.S_IFLNK:
		var node Node
		if node, err = src.Stat(name); err == nil {
			err = unix.Symlinkat(node.Target, dst.fd, name)
		}
	default:
		err = mknod(dst.fd, name, &st)
	}
	if err != nil {
		return src.error("copy", name, err)
	}
	return finish(dst, name, &st)
}

// link gives the copy of an inode one more name.
func (c *copier) link(first string, dst *Folder, name string) error {
	dir, base, err := Parent(c.top, first)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := unix.Linkat(dir.fd, base, dst.fd, name, 0); err != nil {
		return dst.error("link", name, err)
	}
	return nil
}

// finish gives an entry its owner, mode and time.
func finish(dst *Folder, name string, st *unix.Stat_t) error {
	if os.Geteuid() == 0 {
		if err := unix.Fchownat(dst.fd, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return dst.error("chown", name, err)
		}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := Chmod(dst.fd, name, uint32(st.Mode)&0o7777); err != nil && !whiteout(st) {
			return dst.error("chmod", name, err)
		}
	}
	times := []unix.Timespec{st.Mtim, st.Mtim}
	if err := unix.UtimesNanoAt(dst.fd, name, times, unix.AT_SYMLINK_NOFOLLOW); err != nil && !whiteout(st) {
		return dst.error("utimes", name, err)
	}
	return nil
}

func (c *copier) file(src, dst *Folder, name string) (err error) {
	in, err := src.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	fd, err := unix.Openat(dst.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), name)
	defer func() { err = errors.Join(err, out.Close()) }()
	return CopyFile(out, in)
}

// CopyFile copies the content of a file into an empty one: shared where the file system
// can do that, and elsewhere with its holes.
func CopyFile(out, in *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(in.Fd()), &st); err != nil {
		return err
	}
	if st.Size <= maxSmall && int64(st.Blocks)*512 >= st.Size { // stat(2): units of 512 bytes
		return copySmall(out, in)
	}
	if cloneFile(out, in) == nil {
		return nil
	}
	return copySparse(out, in)
}

// maxSmall bounds a file without holes that one read and one write copy, in bytes.
const maxSmall = 16 << 10

func copySmall(out, in *os.File) error {
	buf := make([]byte, maxSmall+1)
	n, err := io.ReadFull(in, buf)
	switch {
	case err == nil:
		_, err = in.Seek(0, io.SeekStart)
		return errors.Join(err, copySparse(out, in)) // it has grown
	case errors.Is(err, io.EOF):
		return nil
	case !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	_, err = out.Write(buf[:n])
	return err
}

// copySparse copies the parts of a file that have data: a payload can make one of
// terabytes that takes no room.
func copySparse(out, in *os.File) error {
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); at < fi.Size(); {
		data, err := in.Seek(at, seekData)
		if errors.Is(err, unix.ENXIO) {
			break // a hole to the end
		}
		if err != nil {
			return err
		}
		end, err := in.Seek(data, seekHole)
		if err != nil {
			return err
		}
		if _, err := in.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, end-data); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		at = end
	}
	return out.Truncate(fi.Size())
}

func (c *copier) subfolder(src, dst *Folder, rel string, depth int) error {
	name := path.Base(rel)
	from, err := src.Folder(name)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	if err := unix.Mkdirat(dst.fd, name, 0o700); err != nil {
		return err
	}
	to, err := dst.Folder(name)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	opaque, err := from.opaque()
	if err != nil {
		return err
	}
	if opaque {
		if err := unix.Fsetxattr(to.fd, "user.overlay.opaque", []byte("y"), 0); err != nil {
			return err
		}
	}
	return c.folder(from, to, rel, depth+1)
}

// Sum is what is in a layer: a digest over names, kinds, sizes, modes, link targets and
// times, how many entries there are, and how many bytes its files have.
type Sum struct {
	Digest  string
	Entries int
	Bytes   int64
}

// Summary looks through a layer.
func Summary(layer string) (Sum, error) {
	top, err := OpenLayer(layer)
	if err != nil {
		return Sum{}, err
	}
	defer func() { _ = top.Close() }()
	s := &summary{hash: sha256.New()}
	if err := s.folder(top, 0); err != nil {
		return Sum{}, fmt.Errorf("summarize layer: %w", err)
	}
	return Sum{hex.EncodeToString(s.hash.Sum(nil)), s.entries, s.bytes}, nil
}

type summary struct {
	hash    hash.Hash
	entries int
	bytes   int64
}

func (s *summary) folder(f *Folder, depth int) error {
	if depth > maxDepth {
		return &TooMany{f.name, fmt.Sprintf("more than %d folders in each other", maxDepth)}
	}
	names, err := f.Names()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		node, removed, err := f.stat(name)
		if err != nil {
			return err
		}
		s.entries++
		mode := node.Mode
		if node.Kind == Dir {
			mode |= 0o700 // a kill can leave a closed one open to its owner
		}
		fmt.Fprintf(s.hash, "%q %s %v %o %q ", name, node.Kind, removed, mode, node.Target)
		if node.Kind == File {
			s.bytes += node.Size
			_ = binary.Write(s.hash, binary.BigEndian, [2]int64{node.Size, node.Stamp.Mtime}) // a hash takes it
		}
		if node.Kind != Dir {
			continue
		}
		sub, err := f.Folder(name)
		if err != nil {
			return err
		}
		opaque, err := sub.opaque()
		if err == nil {
			fmt.Fprintf(s.hash, "{%v ", opaque)
			err = s.folder(sub, depth+1)
			fmt.Fprint(s.hash, "}")
		}
		if err := errors.Join(err, sub.Close()); err != nil {
			return err
		}
	}
	return nil
}
