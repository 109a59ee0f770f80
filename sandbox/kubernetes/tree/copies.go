package tree

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// Copies are the trees in a pod, with what was known of them when they were made.
type Copies struct {
	roots []string
	trees []*copied
	last  [sha256.Size]byte // of what was packed last
	any   bool
}

// copied is one tree: what lies below the upper layer, by path, and the names in each folder.
type copied struct {
	known map[string]known
	names map[string][]string
}

// known is an entry as it was made. One that is not as below the upper layer is always packed.
type known struct {
	kind  layers.Kind
	mode  uint32
	stamp layers.Stamp
	fresh bool
}

// Fill makes what Send wrote, in empty folders.
func Fill(r io.Reader, roots []string) (*Copies, error) {
	c := &Copies{roots: roots}
	for range roots {
		c.trees = append(c.trees, &copied{map[string]known{}, map[string][]string{}})
	}
	var u *layers.Unpacker
	at := -1
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("fill: %w", err)
		}
		n, rel, err := number(h.Name, len(roots))
		if err != nil {
			return nil, fmt.Errorf("fill: %w", err)
		}
		if n != at {
			if u != nil {
				err = u.Finish()
			}
			if err == nil {
				at = n
				u, err = layers.NewUnpacker(roots[n], -1, -1)
			}
			if err != nil {
				return nil, fmt.Errorf("fill: %w", err)
			}
		}
		c.trees[n].enter(rel, h)
		if h.Typeflag == tar.TypeChar {
			continue
		}
		h.Name = rel
		if err := u.Add(h, in); err != nil {
			return nil, fmt.Errorf("fill: %w", err)
		}
	}
	if u != nil {
		if err := u.Finish(); err != nil {
			return nil, fmt.Errorf("fill: %w", err)
		}
	}
	for i, root := range roots {
		if err := c.trees[i].stamp(root); err != nil {
			return nil, fmt.Errorf("fill: %w", err)
		}
	}
	return c, nil
}

func (c *copied) enter(rel string, h *tar.Header) {
	k := known{fresh: h.PAXRecords[paxState] == stateNew, mode: uint32(h.Mode)}
	switch h.Typeflag {
	case tar.TypeDir:
		k.kind = layers.Dir
	case tar.TypeSymlink:
		k.kind, k.mode = layers.Link, 0
	case tar.TypeReg:
		k.kind = layers.File
	default:
		k.fresh = true // removed: should it come again it is new
	}
	c.known[rel] = k
	dir := path.Dir(rel)
	c.names[dir] = append(c.names[dir], path.Base(rel))
}

// stamp notes what the entries are now, before any program writes to them.
func (c *copied) stamp(root string) error {
	for rel, k := range c.known {
		if k.kind == "" || k.kind == layers.Dir {
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(root, rel), &st); err != nil {
			return fmt.Errorf("look at %s: %w", rel, err)
		}
		k.stamp = layers.Stamp{Dev: uint64(st.Dev), Inode: st.Ino, Size: st.Size}
		k.stamp.Mtime, k.stamp.Ctime = times(&st)
		c.known[rel] = k
	}
	return nil
}

// Pack writes what differs from what lies below the upper layers. It writes nothing, and says so,
// where that is what it wrote last.
func (c *Copies) Pack(w io.Writer) (same bool, err error) {
	sum := sha256.New()
	if err := c.pack(tar.NewWriter(sum), false); err != nil {
		return false, err
	}
	now := [sha256.Size]byte(sum.Sum(nil))
	if c.any && now == c.last {
		return true, nil
	}
	if err := c.pack(tar.NewWriter(w), true); err != nil {
		return false, err
	}
	c.any, c.last = true, now
	return false, nil
}

func (c *Copies) pack(out *tar.Writer, whole bool) error {
	sent := &bounds{}
	for i, root := range c.roots {
		top, err := layers.OpenLayer(root)
		if err != nil {
			return fmt.Errorf("pack: %w", err)
		}
		p := &packer{copied: c.trees[i], out: out, under: strconv.Itoa(i), whole: whole, sent: sent}
		if err := errors.Join(p.folder(top, "", true, 0), top.Close()); err != nil {
			return fmt.Errorf("pack: %w", err)
		}
	}
	return out.Close()
}

// packer writes one tree's changes. Without whole it writes the stamps of files in place of them.
type packer struct {
	*copied

	out   *tar.Writer
	under string
	whole bool
	sent  *bounds
	open  []*tar.Header // folders on the way that are not written yet
}

// head writes an entry after the folders that lead to it.
func (p *packer) head(h *tar.Header) error {
	for _, above := range p.open {
		if above.Name == "" {
			continue
		}
		one := *above
		if err := errors.Join(p.sent.entry(), p.out.WriteHeader(&one)); err != nil {
			return err
		}
		above.Name = ""
	}
	return errors.Join(p.sent.entry(), p.out.WriteHeader(h))
}

// folder looks through a folder. merged says that it lies over the one below: what is not there
// any more has to be said.
func (p *packer) folder(f *layers.Folder, rel string, merged bool, depth int) error {
	if depth > maxDepth {
		return errDeep
	}
	names, err := f.Names()
	if err != nil {
		return err
	}
	key := rel
	if rel == "" {
		key = "."
	}
	if merged {
		names = append(names, p.names[key]...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := p.entry(f, name, path.Join(rel, name), merged, depth); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(f *layers.Folder, name, rel string, merged bool, depth int) error {
	n, err := f.Stat(name)
	if err != nil {
		return err
	}
	k, was := p.known[rel]
	was = was && merged
	h := &tar.Header{Name: p.under + "/" + rel, Mode: int64(n.Mode & 0o777), ModTime: time.Unix(0, n.Stamp.Mtime),
		Format: tar.FormatPAX, PAXRecords: map[string]string{}}
	switch n.Kind {
	case layers.Dir:
		return p.subfolder(f, h, name, rel, was && k.kind == layers.Dir && !k.fresh, n.Mode != k.mode, depth)
	case layers.Link:
		h.Typeflag, h.Linkname = tar.TypeSymlink, n.Target
	case layers.File:
		h.Typeflag = tar.TypeReg
	default: // gone, or what no file system of the host is given
		if !was {
			return nil
		}
		h.Typeflag = tar.TypeChar
		return p.head(h)
	}
	if was && !k.fresh && k.kind == n.Kind && k.mode == n.Mode && k.stamp == n.Stamp {
		return nil
	}
	if n.Kind == layers.File {
		return p.file(f, h, name, n)
	}
	return p.head(h)
}

func (p *packer) subfolder(f *layers.Folder, h *tar.Header, name, rel string, merged, changed bool, depth int) error {
	sub, err := f.Folder(name)
	if err != nil {
		if layers.Absent(err) {
			return nil // meanwhile
		}
		return err
	}
	h.Typeflag = tar.TypeDir
	if !merged {
		h.PAXRecords[paxOpaque] = "y"
	}
	if !merged || changed {
		err = p.head(h)
	} else {
		p.open = append(p.open, h)
		defer func() { p.open = p.open[:len(p.open)-1] }()
	}
	if err == nil {
		err = p.folder(sub, rel, merged, depth+1)
	}
	return errors.Join(err, sub.Close())
}

func (p *packer) file(f *layers.Folder, h *tar.Header, name string, n layers.Node) error {
	if err := p.sent.content(n.Size); err != nil {
		return fmt.Errorf("%.100q: %w", h.Name, err) // before the host reads any of it
	}
	if !p.whole {
		h.PAXRecords[paxState] = fmt.Sprint(n.Stamp)
		return p.head(h)
	}
	in, err := f.Open(name)
	if err != nil {
		if layers.Absent(err) {
			return nil // meanwhile
		}
		return err
	}
	defer in.Close()
	h.Size = n.Size
	if err := p.head(h); err != nil {
		return err
	}
	return exactly(p.out, in, h.Size)
}
