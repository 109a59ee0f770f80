package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// mostLeft bounds the protected paths that are named.
const mostLeft = 100

// incoming is the folder beside an overlay's own in which a layer is made.
const incoming = "from-pod"

// Receive makes what Pack wrote the upper layers of the trees. left are the protected paths of
// which something was not taken. What was half taken is removed.
func Receive(r io.Reader, list []Tree) (left []string, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, Discard(list))
		}
	}()
	in := &receiver{list: list, at: -1, in: tar.NewReader(r)}
	for _, t := range list {
		if t.Upper != nil {
			if err := in.prepare(t); err != nil {
				return nil, fmt.Errorf("take what the pod changed: %w", err)
			}
		}
	}
	if err := errors.Join(in.all(), in.finish()); err != nil {
		return nil, fmt.Errorf("take what the pod changed: %w", err)
	}
	for _, t := range list {
		if t.Upper == nil {
			continue
		}
		at := filepath.Join(string(t.Upper.Store), t.Upper.Work)
		if err := exchange(filepath.Join(at, incoming), filepath.Join(string(t.Upper.Store), t.Upper.Dir)); err != nil {
			return nil, fmt.Errorf("take what the pod changed: %w", err)
		}
	}
	return in.left, nil
}

// Discard removes the layers before the last ones, which whoever compared them meanwhile may
// have had open.
func Discard(list []Tree) (err error) {
	for _, t := range list {
		if t.Upper != nil {
			err = errors.Join(err, removed(t))
		}
	}
	return err
}

func removed(t Tree) error {
	err := layers.RemoveAll(filepath.Join(string(t.Upper.Store), t.Upper.Work), incoming)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

type receiver struct {
	list  []Tree
	in    *tar.Reader
	at    int
	out   *layers.Unpacker
	taken bounds
	left  []string
}

// prepare makes an empty layer like the one that it will replace.
func (r *receiver) prepare(t Tree) error {
	if err := removed(t); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(string(t.Upper.Store), t.Upper.Dir), &st); err != nil {
		return err
	}
	at := filepath.Join(string(t.Upper.Store), t.Upper.Work, incoming)
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(at, os.FileMode(st.Mode&0o777)); err != nil {
		return err
	}
	return own(at, &st)
}

// own gives a folder the owner that another has, where this process may.
func own(at string, st *unix.Stat_t) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(at, int(st.Uid), int(st.Gid))
}

func (r *receiver) finish() error {
	if r.out == nil {
		return nil
	}
	err := r.out.Finish()
	r.out = nil
	return err
}

func (r *receiver) all() error {
	for {
		h, err := r.in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		n, rel, err := number(h.Name, len(r.list))
		if err != nil {
			return err
		}
		if n < r.at {
			return fmt.Errorf("%.100q comes after another tree", h.Name)
		}
		if sparse(h) {
			return fmt.Errorf("%.100q is sparse, which no pod sends", h.Name)
		}
		if err := errors.Join(r.taken.entry(), r.taken.content(h.Size)); err != nil {
			return err
		}
		t := r.list[n]
		if t.Upper == nil {
			continue
		}
		if r.holds(t, h, rel) {
			continue
		}
		if n != r.at {
			if err := r.begin(n); err != nil {
				return err
			}
		}
		h.Name = rel
		if err := r.out.Add(h, r.in); err != nil {
			return err
		}
	}
}

// sparse reports whether a file would be larger than what of it is in the archive.
func sparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if key == paxSparse || strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// begin goes on with the next tree.
func (r *receiver) begin(n int) error {
	if err := r.finish(); err != nil {
		return err
	}
	t := r.list[n]
	at := filepath.Join(string(t.Upper.Store), t.Upper.Work, incoming)
	uid, gid := -1, -1
	if os.Geteuid() == 0 {
		var st unix.Stat_t
		if err := unix.Stat(at, &st); err != nil {
			return err
		}
		uid, gid = int(st.Uid), int(st.Gid)
	}
	var err error
	r.at = n
	r.out, err = layers.NewUnpacker(at, uid, gid)
	return err
}

// holds reports whether an entry is left out for a protected path: that itself, or what would take
// the folder away that it lies in.
func (r *receiver) holds(t Tree, h *tar.Header, rel string) bool {
	clean := path.Clean(rel)
	over := t.above(clean)
	if over && h.Typeflag == tar.TypeDir {
		delete(h.PAXRecords, paxOpaque)
		return false
	}
	if !over && !t.holds(clean) {
		return false
	}
	if len(r.left) < mostLeft {
		r.left = append(r.left, path.Join(t.Target, clean))
	}
	return true
}
