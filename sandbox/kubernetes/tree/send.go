package tree

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// Send writes what the trees show as an archive.
func Send(ctx context.Context, w io.Writer, list []Tree) error {
	out := tar.NewWriter(w)
	for i, t := range list {
		s := &sender{ctx: ctx, tree: t, out: out, under: strconv.Itoa(i)}
		if err := s.send(); err != nil {
			return fmt.Errorf("send %s: %w", t.Source, err)
		}
	}
	return out.Close()
}

type sender struct {
	ctx   context.Context
	tree  Tree
	out   *tar.Writer
	under string
}

func (s *sender) send() (err error) {
	var now, below []*layers.Folder
	defer func() { err = errors.Join(err, closeAll(now), closeAll(below)) }()
	if u := s.tree.Upper; u != nil {
		f, err := layers.OpenLayer(filepath.Join(string(u.Store), u.Dir))
		if err != nil {
			return err
		}
		now = append(now, f)
		for _, l := range u.Lower {
			for _, to := range []*[]*layers.Folder{&now, &below} {
				f, err := layers.OpenLayer(filepath.Join(string(u.Store), l))
				if err != nil {
					return err
				}
				*to = append(*to, f)
			}
		}
	}
	for _, to := range []*[]*layers.Folder{&now, &below} {
		f, err := layers.OpenFolder(s.tree.Source)
		if err != nil {
			return err
		}
		*to = append(*to, f)
	}
	return s.folder("", now, below, 0)
}

func closeAll(list []*layers.Folder) (err error) {
	for _, f := range list {
		err = errors.Join(err, f.Close())
	}
	return err
}

// found is what a name is in layers, the newest first.
type found struct {
	node layers.Node
	in   *layers.Folder
	subs []*layers.Folder
}

func look(in []*layers.Folder, name string) (f found, err error) {
	for _, l := range in {
		n, err := l.Stat(name)
		if err != nil {
			return f, err
		}
		switch {
		case !n.Exists():
			continue
		case n.Kind == layers.Special: // a whiteout, or what no pod is given: nothing below shows
			return f, nil
		case f.node.Exists() && n.Kind != layers.Dir:
			return f, nil
		case !f.node.Exists():
			f.node, f.in = n, l
		}
		if n.Kind != layers.Dir {
			return f, nil
		}
		sub, err := l.Folder(name)
		if err != nil {
			return f, err
		}
		f.subs = append(f.subs, sub)
		if opaque(sub) {
			return f, nil
		}
	}
	return f, nil
}

func opaque(f *layers.Folder) bool {
	var value [2]byte
	n, err := unix.Fgetxattr(f.Fd(), "user.overlay.opaque", value[:])
	return err == nil && n == 1 && value[0] == 'y'
}

// folder writes a folder: now is all of it, below without the upper layer.
func (s *sender) folder(rel string, now, below []*layers.Folder, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	names, err := union(now, below)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.ctx.Err(); err != nil {
			return context.Cause(s.ctx)
		}
		if err := s.entry(path.Join(rel, name), name, now, below, depth); err != nil {
			return err
		}
	}
	return nil
}

func union(lists ...[]*layers.Folder) ([]string, error) {
	var names []string
	for _, f := range slices.Concat(lists...) {
		list, err := f.Names()
		if err != nil {
			return nil, err
		}
		names = append(names, list...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (s *sender) entry(rel, name string, now, below []*layers.Folder, depth int) (err error) {
	is, err := look(now, name)
	defer func() { err = errors.Join(err, closeAll(is.subs)) }()
	if errors.Is(err, fs.ErrPermission) {
		return s.cover(rel, Cover{Folder: is.node.Kind == layers.Dir}) // it is not to be seen by this user either
	}
	if err != nil {
		return err
	}
	was, err := look(below, name)
	defer func() { err = errors.Join(err, closeAll(was.subs)) }()
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if c, covered := s.tree.Covers[rel]; covered {
		if !is.node.Exists() && !was.node.Exists() {
			return nil
		}
		return s.cover(rel, c)
	}
	h := &tar.Header{Name: s.under + "/" + rel, Mode: int64(is.node.Mode & 0o777), Format: tar.FormatPAX,
		ModTime: time.Unix(0, is.node.Stamp.Mtime), PAXRecords: map[string]string{}}
	if is.node.Kind != was.node.Kind || is.node.Mode != was.node.Mode || is.node.Kind != layers.Dir && is.node.Stamp != was.node.Stamp {
		h.PAXRecords[paxState] = stateNew
	}
	switch is.node.Kind {
	case "":
		if !was.node.Exists() {
			return nil
		}
		h.Typeflag = tar.TypeChar // 0:0: removed
		return s.out.WriteHeader(h)
	case layers.Link:
		h.Typeflag, h.Linkname = tar.TypeSymlink, is.node.Target
		return s.out.WriteHeader(h)
	case layers.File:
		return s.file(h, name, is)
	case layers.Dir:
		h.Typeflag = tar.TypeDir
		if err := s.out.WriteHeader(h); err != nil {
			return err
		}
		return s.folder(rel, is.subs, was.subs, depth+1)
	case layers.Special: // look gives none
	}
	return nil
}

// cover writes what is shown instead of an entry.
func (s *sender) cover(rel string, c Cover) error {
	h := &tar.Header{Name: s.under + "/" + rel, Typeflag: tar.TypeReg, Mode: 0o444, Size: int64(len(c.Text)),
		Format: tar.FormatPAX}
	if c.Folder {
		h.Typeflag, h.Mode, h.Size = tar.TypeDir, 0o555, 0
	}
	if err := s.out.WriteHeader(h); err != nil || c.Folder {
		return err
	}
	_, err := s.out.Write(c.Text)
	return err
}

func (s *sender) file(h *tar.Header, name string, is found) error {
	in, err := is.in.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return s.cover(path.Join(h.Name[len(s.under)+1:]), Cover{})
	}
	if err != nil {
		return err
	}
	defer in.Close()
	h.Typeflag, h.Size = tar.TypeReg, is.node.Size
	if err := s.out.WriteHeader(h); err != nil {
		return err
	}
	return exactly(s.out, in, h.Size)
}

// exactly copies as many bytes as an archive was promised. A file that became shorter meanwhile is
// filled up, as one that a program reads while another writes.
func exactly(w io.Writer, in io.Reader, size int64) error {
	n, err := io.CopyN(w, in, size)
	if errors.Is(err, io.EOF) {
		_, err = io.CopyN(w, zeros{}, size-n)
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
