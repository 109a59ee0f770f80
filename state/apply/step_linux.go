package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/state/acl"
	"cloister/state/layers"
)

// step makes one step, unless it is made already. why is what someone else changed.
func (r *run) step(i int, s Step) (why string, err error) {
	dir, name, err := layers.Parent(r.top, s.Path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) && !s.New.Exists() {
			return "", nil // removed with its folder, before a crash
		}
		return "it cannot be reached: " + reason(err), nil
	}
	defer func() { _ = dir.Close() }()
	now, err := dir.Stat(name)
	if err != nil {
		return "", err
	}
	if r.made(i, s, now) {
		return r.lookAgain(dir, name, i, s)
	}
	if why := expected(s.Old, now); why != "" {
		return why, nil
	}
	switch {
	case s.ModeOnly, s.Old.Kind == layers.Dir && s.New.Kind == layers.Dir:
		return "", layers.Chmod(dir.Fd(), name, s.New.Mode&0o777)
	case s.New.Kind == layers.Dir:
		return r.makeFolder(dir, name, s)
	case !s.New.Exists() && s.Old.Kind == layers.Dir:
		err := unix.Unlinkat(dir.Fd(), name, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.ENOTEMPTY) {
			return "something was put into it meanwhile", nil
		}
		return "", err
	case !s.New.Exists():
		return r.remove(dir, name, i, s)
	case !s.Old.Exists():
		err := unix.Renameat2(r.stage.Fd(), strconv.Itoa(i), dir.Fd(), name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			return "it was made in the project meanwhile", nil
		}
		return "", crossing(err)
	}
	return r.exchange(dir, name, i, s)
}

// made reports whether a step is done, by the inode that was staged for it.
func (r *run) made(i int, s Step, now layers.Node) bool {
	switch {
	case r.staged[i] != 0:
		return now.Stamp.Inode == r.staged[i]
	case s.ModeOnly:
		return now.Kind == s.New.Kind && now.Mode == s.New.Mode&0o777
	case s.New.Kind == layers.Dir:
		return now.Kind == layers.Dir && now.Mode == s.New.Mode&0o777
	}
	return !s.New.Exists() && !now.Exists()
}

func (r *run) makeFolder(dir *layers.Folder, name string, s Step) (why string, err error) {
	if err := unix.Mkdirat(dir.Fd(), name, 0o700); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return "it was made in the project meanwhile", nil
		}
		return "", err
	}
	if err := r.own(dir.Fd(), name); err != nil {
		return "", err
	}
	if s.Keep != nil {
		if err := setLists(dir, name, s.Keep); err != nil {
			return "", err
		}
	}
	return "", layers.Chmod(dir.Fd(), name, s.New.Mode&0o777)
}

func setLists(dir *layers.Folder, name string, lists *acl.Lists) error {
	made, err := dir.Folder(name)
	if err != nil {
		return err
	}
	return errors.Join(lists.Set(made.Fd()), made.Close())
}

// exchange puts the staged entry in the place of the old one, which is then looked at:
// no one can change it between the look and the step.
func (r *run) exchange(dir *layers.Folder, name string, i int, s Step) (why string, err error) {
	staged := strconv.Itoa(i)
	ours, err := r.hold(r.stage, staged, i)
	if err != nil {
		return "", err
	}
	if ours < 0 {
		return "it was changed in the project meanwhile", nil // before a crash
	}
	defer func() { _ = unix.Close(ours) }()
	if err := unix.Renameat2(r.stage.Fd(), staged, dir.Fd(), name, unix.RENAME_EXCHANGE); err != nil {
		return "", crossing(err)
	}
	was, err := r.stage.Stat(staged)
	if err == nil {
		why = expected(s.Old, was)
	}
	if err != nil || why != "" {
		return why, errors.Join(err, r.giveBack(dir, name, i, ours))
	}
	return "", nil
}

// lookAgain looks at what a step replaced before a crash, which may have come before
// the look. What is not as expected is put back.
func (r *run) lookAgain(dir *layers.Folder, name string, i int, s Step) (why string, err error) {
	if s.ModeOnly || !s.Old.Exists() || s.Old.Kind == layers.Dir {
		return "", nil
	}
	was, err := r.stage.Stat(strconv.Itoa(i))
	if err != nil || !was.Exists() {
		return "", err
	}
	if why = expected(s.Old, was); why == "" {
		return "", nil
	}
	return why, r.giveBack(dir, name, i, -1)
}

func (r *run) remove(dir *layers.Folder, name string, i int, s Step) (why string, err error) {
	staged := strconv.Itoa(i)
	if err := unix.Renameat2(dir.Fd(), name, r.stage.Fd(), staged, unix.RENAME_NOREPLACE); err != nil {
		return "", crossing(err)
	}
	was, err := r.stage.Stat(staged)
	if err == nil {
		why = expected(s.Old, was)
	}
	if err != nil || why != "" {
		return why, errors.Join(err, r.giveBack(dir, name, i, -1))
	}
	return "", nil
}

func crossing(err error) error {
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("it lies on another file system than the project's top: %w", err)
	}
	return err
}

// rollBack takes the steps before the n-th back, the last first.
func (r *run) rollBack(n int) error {
	for i := n - 1; i >= 0; i-- {
		if err := r.back(i, r.Steps[i]); err != nil {
			return fmt.Errorf("%s: %w", r.Steps[i].Path, err)
		}
	}
	return nil
}

func (r *run) back(i int, s Step) error {
	dir, name, err := layers.Parent(r.top, s.Path)
	if errors.Is(err, fs.ErrNotExist) && s.New.Exists() {
		return nil // gone with its folder, taken back before a crash
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	now, err := dir.Stat(name)
	if err != nil {
		return err
	}
	switch {
	case s.ModeOnly, s.Old.Kind == layers.Dir && s.New.Kind == layers.Dir:
		if now.Mode != s.New.Mode&0o777 {
			return nil // taken back before, or another was chosen
		}
		return layers.Chmod(dir.Fd(), name, s.Old.Mode&0o777)
	case s.New.Kind == layers.Dir:
		if now.Kind != layers.Dir {
			return nil
		}
		if err := unix.Unlinkat(dir.Fd(), name, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		return nil // another program uses it now
	case s.Old.Kind == layers.Dir:
		_, err := r.makeFolder(dir, name, Step{New: s.Old, Keep: s.Was})
		return err
	case s.Old.Exists():
		return r.giveBack(dir, name, i, -1)
	}
	return r.takeAway(dir, name, i)
}
