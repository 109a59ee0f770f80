package apply

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"cloister/internal/durable"
	"cloister/state/layers"

	"golang.org/x/sys/unix"
)

// keepAllOld makes a staging folder that lies with the journal the folder of what was there
// before: nothing else is in it now, but links and the like. It reports whether it could.
func (r *run) keepAllOld() (bool, error) {
	if !r.apart {
		return false, nil
	}
	for i, s := range r.Steps {
		if !s.Old.Exists() || s.Old.Kind == layers.File || s.Old.Kind == layers.Dir {
			continue
		}
		if err := unix.Unlinkat(r.stage.Fd(), strconv.Itoa(i), 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return false, fmt.Errorf("remove what was replaced: %w", err)
		}
	}
	err := unix.Rename(filepath.Join(r.dir, stageFolder), filepath.Join(r.dir, oldFolder))
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return false, nil // a recovery comes here twice
	}
	if err != nil {
		return false, fmt.Errorf("keep what was there before: %w", err)
	}
	return true, unix.Fsync(r.stage.Fd())
}

// keepOld moves what the steps replaced from the staging folder into the journal.
func (r *run) keepOld() error {
	for i, s := range r.Steps {
		if s.Old.Kind != layers.File || s.ModeOnly {
			continue
		}
		name, to := strconv.Itoa(i), filepath.Join(r.dir, oldFolder, strconv.Itoa(i))
		err := unix.Renameat(r.stage.Fd(), name, unix.AT_FDCWD, to)
		if errors.Is(err, unix.ENOENT) {
			kept, kerr := layers.Exists(to)
			if kerr != nil {
				return fmt.Errorf("keep the old %s: %w", s.Path, kerr)
			}
			if kept || !s.New.Exists() {
				continue // a recovery comes here twice; or a program removed it just before
			}
		}
		if errors.Is(err, unix.EXDEV) {
			err = r.copyOut(name, to)
		}
		if err != nil {
			return fmt.Errorf("keep the old %s: %w", s.Path, err)
		}
	}
	return durable.SyncDir(filepath.Join(r.dir, oldFolder))
}

func (r *run) copyOut(name, to string) error {
	in, err := r.stage.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err = layers.CopyFile(out, in); err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
