package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/state/layers"
)

// giveBackTries bounds how often an entry is brought to where it belongs while another
// program moves names about. Two that exchange names all the time meet in some three.
const giveBackTries = 64

// mine reports whether an entry is what was staged for a step, untouched since.
func (r *run) mine(i int, n layers.Node) bool {
	return n.Exists() && r.staged[i] != 0 && n.Stamp.Inode == r.staged[i] &&
		(r.stamps == nil || r.stamps[i].SameContent(n.Stamp))
}

// hold opens an entry if it is what was staged for a step; -1 if it is not. As long as it is
// open no other file gets its inode.
func (r *run) hold(in *layers.Folder, name string, i int) (fd int, err error) {
	fd, err = unix.Openat(in.Fd(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, nil
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil || st.Ino != r.staged[i] {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// giveBack puts what a step took from the project back, so that the staging folder has what
// was staged for that step, or nothing. The kernel has no exchange that is made only if a
// name still holds what was looked at. So what was staged stands for what was taken: wherever
// another program moved it within the folder, what was taken goes there in its stead. Where
// that program replaced or removed it, so it would have what was taken. In every other case
// what was taken comes to lie beside its name. ours is what was staged, open; or -1.
func (r *run) giveBack(dir *layers.Folder, name string, i, ours int) error {
	if r.staged[i] == 0 {
		return r.putBeside(dir, name, i)
	}
	staged := strconv.Itoa(i)
	for range giveBackTries {
		held, err := r.stage.Stat(staged)
		if err != nil || !held.Exists() || r.mine(i, held) {
			return err
		}
		at, err := r.find(dir, name, i)
		if err != nil {
			return err
		}
		if at != "" {
			err := unix.Renameat2(r.stage.Fd(), staged, dir.Fd(), at, unix.RENAME_EXCHANGE)
			if err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
			continue
		}
		if gone, err := unlinked(ours); gone || err != nil {
			return errors.Join(err, unix.Unlinkat(r.stage.Fd(), staged, 0))
		}
		runtime.Gosched() // it was moved while it was looked for
	}
	return r.putBeside(dir, name, i)
}

// takeAway takes a new entry that a step made from the project again, wherever another program moved it within the
// folder. Where that program replaced, wrote or removed it, its own stays.
func (r *run) takeAway(dir *layers.Folder, name string, i int) error {
	staged := strconv.Itoa(i)
	for range giveBackTries {
		at, err := r.find(dir, name, i)
		if err != nil {
			return err
		}
		if at == "" {
			runtime.Gosched() // it may have been moved while it was looked for
			continue
		}
		err = unix.Renameat2(dir.Fd(), at, r.stage.Fd(), staged, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return err
		}
		came, err := r.stage.Stat(staged)
		if err != nil || r.mine(i, came) {
			return err
		}
		// It came between the look and the step.
		if err := r.putBeside(dir, at, i); err != nil {
			return err
		}
	}
	return nil
}

// find looks for what was staged for a step in a folder, under its own name first.
func (r *run) find(dir *layers.Folder, name string, i int) (at string, err error) {
	now, err := dir.Stat(name)
	if err != nil || r.mine(i, now) {
		return name, err
	}
	if r.stamps == nil {
		return "", nil // after a crash another file may have its inode
	}
	names, err := dir.Names()
	if err != nil {
		return "", err
	}
	for _, n := range names {
		now, err := dir.Stat(n)
		if err != nil || r.mine(i, now) {
			return n, err
		}
	}
	return "", nil
}

// unlinked reports whether an open entry has no name any more.
func unlinked(fd int) (bool, error) {
	if fd < 0 {
		return false, nil
	}
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return err == nil && st.Nlink == 0, err
}

// putBeside puts what the staging folder has for a step to its name, or beside it if someone
// else made another entry there.
func (r *run) putBeside(dir *layers.Folder, name string, i int) error {
	staged := strconv.Itoa(i)
	err := unix.Renameat2(r.stage.Fd(), staged, dir.Fd(), name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOENT) {
		return nil // it was put back before a crash, or someone else had removed it as well
	}
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	beside := fmt.Sprintf("%s.kept-%s-%d", name, r.ID, i)
	if len(beside) > unix.NAME_MAX {
		beside = fmt.Sprintf("kept-%s-%d", r.ID, i)
	}
	if err := unix.Renameat2(r.stage.Fd(), staged, dir.Fd(), beside, unix.RENAME_NOREPLACE); err != nil {
		return fmt.Errorf("keep what was there beside %s: %w", name, err)
	}
	r.kept = append(r.kept, beside)
	return nil
}

// leave removes the staging folder after all was taken back. What is in it and was not staged
// is someone else's.
func (r *run) leave() error {
	names, err := r.stage.Names()
	if err != nil {
		return err
	}
	for _, n := range names {
		i, err := strconv.Atoi(n)
		if err != nil || i < 0 || i >= len(r.Steps) {
			return fmt.Errorf("take back: the staging folder has %.80q, which no step is", n)
		}
		is, err := r.stage.Stat(n)
		if err == nil && !r.mine(i, is) {
			err = r.rescue(i)
		}
		if err != nil {
			return err
		}
	}
	return r.unstage()
}

func (r *run) rescue(i int) error {
	dir, name, err := layers.Parent(r.top, r.Steps[i].Path)
	if errors.Is(err, fs.ErrNotExist) { // its folder was removed with what was put there
		dir, err = r.top.Folder(".")
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return r.giveBack(dir, name, i, -1)
}

// keptBeside says what lies beside its name now.
func (r *run) keptBeside() string {
	if len(r.kept) == 0 {
		return ""
	}
	return "; what was there is kept as " + strings.Join(r.kept, ", ")
}
