package layers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Copy copies a layer into an empty folder: names, content, modes, times, owners, hard
// links, whiteouts and opaque folders.
func Copy(ctx context.Context, from, to string) error {
	t, err := Take(ctx, from, to)
	if err != nil {
		return err
	}
	return t.Write(ctx)
}

// Taken is what a layer had at one moment. Small content is in memory, so that a caller that waits
// for the moment waits for reading alone; the rest was copied to where all of it goes.
type Taken struct {
	to       string
	top      []*taken
	inMemory int
	links    bool
}

// taken is one entry.
type taken struct {
	name   string
	st     unix.Stat_t
	text   []byte // of a small file
	copied bool   // a file whose content lies in its place already
	target string // of a link
	first  string // the path of another name of the same file, which came before
	opaque bool
	below  []*taken
}

// maxInMemory bounds the content that is held in memory, in bytes.
const maxInMemory = 32 << 20

// writersAtOnce are the folders that are written at the same time.
const writersAtOnce = 4

// Take reads a layer that [Taken.Write] writes into an empty folder.
func Take(ctx context.Context, from, to string) (*Taken, error) {
	src, err := OpenLayer(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = src.Close() }()
	dst, err := OpenLayer(to)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dst.Close() }()
	t := &Taken{to: to}
	r := &taking{Taken: t, ctx: ctx, dst: dst, seen: map[uint64]string{}}
	if t.top, err = r.folder(src, "", 0); err != nil {
		return nil, fmt.Errorf("copy layer: %w", err)
	}
	return t, nil
}

// taking reads entries. What does not go to memory is copied below dst.
type taking struct {
	*Taken

	ctx  context.Context
	dst  *Folder
	seen map[uint64]string // inodes with several names: the path of the first
}

func (r *taking) folder(src *Folder, rel string, depth int) ([]*taken, error) {
	if depth > maxDepth {
		return nil, &TooMany{src.name, fmt.Sprintf("more than %d folders in each other", maxDepth)}
	}
	names, err := src.Names()
	if err != nil {
		return nil, err
	}
	out := make([]*taken, 0, len(names))
	for _, name := range names {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		e, err := r.entry(src, path.Join(rel, name), depth)
		if err != nil {
			return nil, err
		}
		if e != nil {
			out = append(out, e)
		}
	}
	return out, nil
}

// entry reads one entry; nil where it was removed meanwhile.
func (r *taking) entry(src *Folder, rel string, depth int) (*taken, error) {
	e := &taken{name: path.Base(rel)}
	if err := unix.Fstatat(src.fd, e.name, &e.st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil, nil
		}
		return nil, src.error("stat", e.name, err)
	}
	kind := e.st.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && e.st.Nlink > 1 && !whiteout(&e.st) {
		r.links = true
		if e.first = r.seen[e.st.Ino]; e.first != "" {
			return e, nil
		}
		r.seen[e.st.Ino] = rel
	}
	var err error
	switch kind {
	case unix.S_IFREG:
		err = r.file(src, rel, e)
	case unix.S_IFDIR:
		err = r.subfolder(src, rel, e, depth)
	case unix.S_IFLNK:
		var node Node
		node, err = src.Stat(e.name)
		e.target = node.Target
	}
	if err != nil {
		return nil, src.error("copy", e.name, err)
	}
	return e, nil
}

func (r *taking) subfolder(src *Folder, rel string, e *taken, depth int) error {
	from, err := src.Folder(e.name)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	if e.opaque, err = from.opaque(); err != nil {
		return err
	}
	e.below, err = r.folder(from, rel, depth+1)
	return err
}

func (r *taking) file(src *Folder, rel string, e *taken) error {
	if small(&e.st) && r.inMemory+int(e.st.Size) <= maxInMemory {
		text, whole, err := src.read(e.name, int(e.st.Size))
		if err != nil {
			return err
		}
		if whole {
			e.text = text
			r.inMemory += len(text)
			return nil
		}
	}
	in, err := src.Open(e.name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	dst, err := folders(r.dst, rel)
	if err != nil {
		return err
	}
	defer func() { _ = dst.Close() }()
	e.copied = true
	fd, err := unix.Openat(dst.fd, e.name, newFile, 0o600)
	if err != nil {
		return err
	}
	out := os.NewFile(uintptr(fd), e.name)
	return errors.Join(CopyFile(out, in), out.Close())
}

// newFile are the flags that files are made with.
const newFile = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC

// read reads a file of at most that size; whole is false for one that has grown.
func (f *Folder) read(name string, size int) (text []byte, whole bool, err error) {
	fd, err := f.openClosed(name, openFile)
	if err != nil {
		return nil, false, err
	}
	buf, n := make([]byte, size+1), 0
	for n < len(buf) {
		more, err := unix.Read(fd, buf[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || more == 0 {
			return buf[:n], err == nil, errors.Join(err, unix.Close(fd))
		}
		n += more
	}
	return nil, false, unix.Close(fd)
}

// folders opens the folder above a path, and makes those that are missing.
func folders(top *Folder, rel string) (*Folder, error) {
	for i, c := range rel {
		if c != '/' {
			continue
		}
		dir, name, err := Parent(top, rel[:i])
		if err == nil {
			if err = unix.Mkdirat(dir.fd, name, 0o700); errors.Is(err, unix.EEXIST) {
				err = nil
			}
			err = errors.Join(err, dir.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	dir, _, err := Parent(top, rel)
	return dir, err
}

// write makes a small file.
func (f *Folder) write(name string, text []byte, mode uint32) error {
	fd, err := unix.Openat(f.fd, name, newFile, mode)
	for err == nil && len(text) > 0 {
		var n int
		n, err = unix.Write(fd, text)
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
		text = text[max(0, n):]
	}
	if fd < 0 {
		return err
	}
	return errors.Join(err, unix.Close(fd))
}

// Write writes what was taken.
func (t *Taken) Write(ctx context.Context) error {
	dst, err := OpenLayer(t.to)
	if err != nil {
		return err
	}
	defer func() { _ = dst.Close() }()
	w := &writing{ctx: ctx, top: dst, slots: make(chan struct{}, writersAtOnce-1)}
	if t.links {
		w.slots = nil // a link needs the file that came before it
	}
	if err := w.folder(dst, t.top); err != nil {
		return fmt.Errorf("copy layer: %w", err)
	}
	return nil
}

type writing struct {
	ctx   context.Context
	top   *Folder
	slots chan struct{} // of folders that are written beside this one
}

// folder writes entries into an open folder. Of several errors it gives one.
func (w *writing) folder(dst *Folder, list []*taken) error {
	var beside errgroup.Group
	var err error
	for _, e := range list {
		if err = w.ctx.Err(); err != nil {
			break
		}
		if len(e.below) > 0 && w.slot() {
			beside.Go(func() error {
				defer func() { <-w.slots }()
				return w.entry(dst, e)
			})
			continue
		}
		if err = w.entry(dst, e); err != nil {
			break
		}
	}
	if other := beside.Wait(); err == nil {
		err = other
	}
	return err
}

func (w *writing) slot() bool {
	select {
	case w.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (w *writing) entry(dst *Folder, e *taken) error {
	var err error
	kind := e.st.Mode & unix.S_IFMT
	switch {
	case e.first != "":
		return w.link(e.first, dst, e.name)
	case kind == unix.S_IFREG && e.copied:
	case kind == unix.S_IFREG:
		err = dst.write(e.name, e.text, uint32(e.st.Mode)&0o777)
	case kind == unix.S_IFDIR:
		err = w.subfolder(dst, e)
	case kind == unix.S_IFLNK:
		err = unix.Symlinkat(e.target, dst.fd, e.name)
	default:
		err = mknod(dst.fd, e.name, &e.st)
	}
	if err != nil {
		return dst.error("copy", e.name, err)
	}
	return finish(dst, e.name, &e.st)
}

func (w *writing) subfolder(dst *Folder, e *taken) error {
	// What was too large for memory has made it already.
	if err := unix.Mkdirat(dst.fd, e.name, uint32(e.st.Mode)&0o777|0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if len(e.below) == 0 && !e.opaque {
		return nil
	}
	to, err := dst.Folder(e.name)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	if e.opaque {
		if err := unix.Fsetxattr(to.fd, "user.overlay.opaque", []byte("y"), 0); err != nil {
			return err
		}
	}
	return w.folder(to, e.below)
}

// link gives the copy of an inode one more name.
func (w *writing) link(first string, dst *Folder, name string) error {
	dir, base, err := Parent(w.top, first)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := unix.Linkat(dir.fd, base, dst.fd, name, 0); err != nil {
		return dst.error("link", name, err)
	}
	return nil
}

// finish gives an entry its owner, mode and time, as far as it has others.
func finish(dst *Folder, name string, st *unix.Stat_t) error {
	var now unix.Stat_t
	if err := unix.Fstatat(dst.fd, name, &now, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return dst.error("stat", name, err)
	}
	owned := now.Uid == st.Uid && now.Gid == st.Gid
	if !owned && os.Geteuid() == 0 {
		if err := unix.Fchownat(dst.fd, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return dst.error("chown", name, err)
		}
	}
	if (!owned || now.Mode != st.Mode) && st.Mode&unix.S_IFMT != unix.S_IFLNK { // chown(2) takes set-id bits away
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

// copyEntry copies one entry of a folder into another that has none of that name.
func copyEntry(ctx context.Context, src, dst *Folder, name string) error {
	t := &Taken{}
	r := &taking{Taken: t, ctx: ctx, dst: dst, seen: map[uint64]string{}}
	e, err := r.entry(src, name, 0)
	if err != nil || e == nil {
		return err
	}
	return (&writing{ctx: ctx, top: dst}).entry(dst, e)
}
