package apply

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"cloister/state/acl"
	"cloister/state/layers"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// stageName is the one folder that the project holds while a journal runs that is not
// staged apart.
func (j *Journal) stageName() string { return ".cloister-apply-" + j.ID }

// sameMount reports whether entries can be moved between two folders.
func sameMount(a, b string) (bool, error) {
	var x, y unix.Statx_t
	const want = unix.STATX_INO | unix.STATX_MNT_ID // since Linux 5.8
	for name, st := range map[string]*unix.Statx_t{a: &x, b: &y} {
		if err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW, want, st); err != nil {
			return false, fmt.Errorf("look at %s: %w", name, err)
		}
	}
	return x.Mask&y.Mask&unix.STATX_MNT_ID != 0 && x.Mnt_id == y.Mnt_id &&
		x.Dev_major == y.Dev_major && x.Dev_minor == y.Dev_minor, nil
}

// openStage opens the folder in which new content waits. With the journal no other session
// that has the project can write to it; on another file system it must lie in the project.
func (r *run) openStage() error {
	in, name := r.top, r.stageName()
	if r.apart {
		dir, err := layers.OpenFolder(r.dir)
		if err != nil {
			return err
		}
		defer func() { _ = dir.Close() }()
		in, name = dir, stageFolder
	}
	err := unix.Mkdirat(in.Fd(), name, 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make staging folder: %w", err)
	}
	if r.stage, err = in.Folder(name); err != nil {
		return err
	}
	// In the project it would inherit what new files there get, wherever they go.
	if err := acl.NoDefault(r.stage.Fd()); err != nil {
		return errors.Join(fmt.Errorf("make staging folder: %w", err), r.stage.Close())
	}
	return nil
}

// removeStage removes the staging folder, which is empty.
func (r *run) removeStage() error {
	if r.apart {
		return unix.Rmdir(filepath.Join(r.dir, stageFolder))
	}
	return unix.Unlinkat(r.top.Fd(), r.stageName(), unix.AT_REMOVEDIR)
}

// syncsAtOnce are the files or folders that wait for the disk together, and openAtOnce
// the files that are written before the first of them waits.
const (
	syncsAtOnce = 16
	openAtOnce  = 256
)

// stageAll writes all new content into the staging folder and makes it durable. Names are
// made one after the other: a folder takes one at a time, and a waiter spins. Of
// many files the content is on its way to the disk before the first is waited for, so that
// file systems commit them together.
func (r *run) stageAll() error {
	r.staged, r.stamps = make([]uint64, len(r.Steps)), make([]layers.Stamp, len(r.Steps))
	var open []waiting
	for i, s := range r.Steps {
		if s.New.Kind != layers.Link && (s.New.Kind != layers.File || s.ModeOnly) {
			continue
		}
		f, err := r.stageOne(i, s)
		if f != nil {
			open = append(open, waiting{f, i})
		}
		if err == nil && len(open) == openAtOnce {
			err = r.syncAll(open)
			open = nil
		}
		if err != nil {
			return errors.Join(fmt.Errorf("stage %s: %w", s.Path, err), closeAll(open))
		}
	}
	if err := r.syncAll(open); err != nil {
		return fmt.Errorf("stage: %w", err)
	}
	if err := unix.Fsync(r.stage.Fd()); err != nil {
		return fmt.Errorf("sync staging folder: %w", err)
	}
	return write(filepath.Join(r.dir, stagedFile), r.staged)
}

// waiting is the file of a step that is not durable yet.
type waiting struct {
	*os.File
	step int
}

// syncAll makes files durable and closes them.
func (r *run) syncAll(list []waiting) error {
	var group errgroup.Group
	group.SetLimit(syncsAtOnce)
	for _, f := range list {
		group.Go(func() (err error) {
			err = f.Sync()
			if err == nil {
				r.stamps[f.step], err = layers.StampOf(f.File)
			}
			return errors.Join(err, f.Close())
		})
	}
	return group.Wait()
}

func closeAll(list []waiting) (err error) {
	for _, f := range list {
		err = errors.Join(err, f.Close())
	}
	return err
}

// stageOne stages the new entry of one step. A file is given back open, to be synced.
func (r *run) stageOne(i int, s Step) (*os.File, error) {
	name := strconv.Itoa(i)
	if s.New.Kind == layers.Link {
		if err := unix.Symlinkat(s.New.Target, r.stage.Fd(), name); err != nil {
			return nil, err
		}
		if err := r.own(r.stage.Fd(), name); err != nil {
			return nil, err
		}
		n, err := r.stage.Stat(name)
		r.staged[i], r.stamps[i] = n.Stamp.Inode, n.Stamp
		return nil, err
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(r.stage.Fd(), name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	out := os.NewFile(uintptr(fd), name)
	if err := r.stageFile(out, s); err != nil {
		return out, err
	}
	stamp, err := layers.StampOf(out)
	r.staged[i] = stamp.Inode
	return out, err
}

func (r *run) stageFile(out *os.File, s Step) error {
	in, err := s.Open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := fill(out, in); err != nil {
		return err
	}
	fd := int(out.Fd())
	if r.uid >= 0 {
		if err := unix.Fchown(fd, r.uid, r.gid); err != nil {
			return err
		}
	}
	if s.Keep != nil {
		if err := s.Keep.Set(fd); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, s.New.Mode&0o777); err != nil {
		return err
	}
	_ = unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE) // it starts what Sync waits for
	return nil
}

// fill writes content to a new file. The holes of a file stay holes: a payload can make
// one of terabytes that takes no room.
func fill(out *os.File, content io.Reader) error {
	if in, ok := content.(*os.File); ok {
		return layers.CopyFile(out, in)
	}
	_, err := io.Copy(out, content)
	return err
}

// unstage removes the staging folder with what is left in it.
func (r *run) unstage() error {
	names, err := r.stage.Names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := unix.Unlinkat(r.stage.Fd(), n, 0); err != nil {
			return fmt.Errorf("remove staged file: %w", err)
		}
	}
	err = r.removeStage()
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
