package layers

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// RemoveAll removes an entry of a folder with all that is in it, also where modes deny
// that to the owner, and however deep a payload nested its folders.
func RemoveAll(dir, name string) error {
	top, err := OpenLayer(dir)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	if err := removeAll(top, name); err != nil {
		return fmt.Errorf("remove layer: %w", err)
	}
	return nil
}

// removal is at work below one folder. Each level costs a descriptor, so what lies deeper
// than a walk goes is moved up first, beside what is removed.
type removal struct {
	top   *Folder
	moved []string
	count int
}

func removeAll(dir *Folder, name string) error {
	r := &removal{top: dir}
	err := r.entry(dir, name, 0)
	for err == nil && len(r.moved) > 0 {
		next := r.moved[len(r.moved)-1]
		r.moved = r.moved[:len(r.moved)-1]
		err = r.entry(dir, next, 0)
	}
	return err
}

func (r *removal) entry(dir *Folder, name string, depth int) error {
	node, _, err := dir.stat(name)
	if err != nil || !node.Exists() {
		return err
	}
	if node.Kind != Dir {
		if err := unix.Unlinkat(dir.fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return dir.error("remove", name, err)
		}
		return nil
	}
	if node.Mode&0o700 != 0o700 {
		if err := Chmod(dir.fd, name, 0o700); err != nil {
			return dir.error("chmod", name, err)
		}
	}
	if depth > maxDepth {
		return r.moveUp(dir, name)
	}
	sub, err := dir.Folder(name)
	if err != nil {
		return err
	}
	names, err := sub.Names()
	for _, n := range names {
		if err == nil {
			err = r.entry(sub, n, depth+1)
		}
	}
	if err := errors.Join(err, sub.Close()); err != nil {
		return err
	}
	if err := unix.Unlinkat(dir.fd, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return dir.error("remove", name, err)
	}
	return nil
}

func (r *removal) moveUp(dir *Folder, name string) error {
	for {
		r.count++
		to := fmt.Sprintf(".cloister-removed-%d", r.count)
		err := renameNew(dir.fd, name, r.top.fd, to)
		if errors.Is(err, unix.EEXIST) {
			continue // of a removal that was interrupted
		}
		if err != nil {
			return dir.error("move up", name, err)
		}
		r.moved = append(r.moved, to)
		return nil
	}
}
