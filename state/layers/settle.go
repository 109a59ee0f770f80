package layers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Settle removes from the only layer over a base what the base has alike: files and
// links of the same content and mode, and whiteouts of what it has no more. A folder
// that is opaque stays as it is.
func Settle(layer, base string) error {
	in, err := OpenLayer(layer)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	of, err := OpenFolder(base)
	if err != nil {
		return err
	}
	defer func() { _ = of.Close() }()
	if err := settle(in, of, 0); err != nil {
		return fmt.Errorf("settle layer: %w", err)
	}
	return nil
}

func settle(in, of *Folder, depth int) error {
	names, err := in.Names()
	if err != nil || depth > maxDepth {
		return err
	}
	for _, name := range names {
		mine, removed, err := in.stat(name)
		if err != nil {
			return err
		}
		theirs, err := of.Stat(name)
		if err != nil {
			return err
		}
		drop := removed && !theirs.Exists()
		switch {
		case removed || mine.Kind != theirs.Kind || (mine.Mode^theirs.Mode)&^0o002 != 0 && mine.Kind != Dir:
		case mine.Kind == Dir:
			err = settleFolder(in, of, name, depth)
		case mine.Kind == Link:
			drop = mine.Target == theirs.Target
		case mine.Kind == File && mine.Size == theirs.Size:
			drop, err = equalFiles(of, in, name)
		}
		if err == nil && drop {
			err = unix.Unlinkat(in.fd, name, 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func settleFolder(in, of *Folder, name string, depth int) error {
	sub, err := in.Folder(name)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	if opaque, err := sub.opaque(); err != nil || opaque {
		return err
	}
	below, err := of.Folder(name)
	if err != nil {
		return err
	}
	defer func() { _ = below.Close() }()
	return settle(sub, below, depth+1)
}

// Reset makes a path of the newest layer what it is in the base: added entries are
// removed or, with more layers below, hidden; others are copied from the base.
func Reset(ctx context.Context, layer, base string, more bool, c Change) error {
	in, err := OpenLayer(layer)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	for _, rel := range []string{c.Path, c.From} {
		if rel == "" {
			continue
		}
		if err := resetOne(ctx, in, base, more, rel); err != nil {
			return fmt.Errorf("discard %s: %w", rel, err)
		}
	}
	return nil
}

func resetOne(ctx context.Context, in *Folder, base string, more bool, rel string) error {
	of, err := OpenFolder(base)
	if err != nil {
		return err
	}
	defer func() { _ = of.Close() }()
	dir, name, err := makeParent(in, rel)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	from, _, err := Parent(of, rel)
	var theirs Node
	if err == nil {
		defer func() { _ = from.Close() }()
		theirs, err = from.Stat(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	mine, _, err := dir.stat(name)
	if err != nil {
		return err
	}
	if theirs.Kind == Dir && mine.Kind == Dir {
		return Chmod(dir.fd, name, theirs.Mode)
	}
	if err := removeAll(dir, name); err != nil {
		return err
	}
	switch {
	case theirs.Exists():
		return copyEntry(ctx, from, dir, name)
	case more:
		return mknodWhiteout(dir.fd, name)
	}
	return nil
}

// makeParent opens the folder above a path in a layer, and makes what is missing.
func makeParent(top *Folder, rel string) (*Folder, string, error) {
	for i, r := range rel {
		if r != '/' {
			continue
		}
		dir, name, err := Parent(top, rel[:i])
		if err != nil {
			return nil, "", err
		}
		node, removed, err := dir.stat(name)
		if err == nil && node.Exists() && (removed || node.Kind != Dir) {
			err = unix.Unlinkat(dir.fd, name, 0)
			node = Node{}
		}
		if err == nil && !node.Exists() {
			err = unix.Mkdirat(dir.fd, name, 0o755)
		}
		if err := errors.Join(err, dir.Close()); err != nil {
			return nil, "", err
		}
	}
	return Parent(top, rel)
}
