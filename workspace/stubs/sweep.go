package stubs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/rawcall"
	"cloister/workspace/gitdir"

	"golang.org/x/sys/unix"
)

// Sweep removes the stubs that crashed sessions left, of projects that no
// living session holds.
func Sweep(locks string) error {
	found, err := filepath.Glob(filepath.Join(locks, "*.lock"))
	if err != nil {
		return fmt.Errorf("sweep stubs: %w", err)
	}
	var errs []error
	for _, path := range found {
		lock, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrPermission) {
			continue // another user's, such as root's: it is theirs to sweep
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep stubs: %w", err))
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_, err := remove(strings.TrimSuffix(path, ".lock")+".stubs", nil)
			errs = append(errs, err)
		}
		lock.Close()
	}
	return errors.Join(errs...)
}

// remove takes the stubs of a journal away that are still as they were made,
// deepest first: to those that are kept, where there are such. What someone has
// put there meanwhile stays: left tells that something lies where one was.
func remove(journal string, pools map[string]*pool) (left bool, err error) {
	f, err := os.Open(journal)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("remove stubs: %w", err)
	}
	defer f.Close()
	var paths, excludes []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := strings.ReplaceAll(sc.Text(), "\x00", "\n")
		if exclude, ok := strings.CutPrefix(line, "x "); ok {
			excludes = append(excludes, exclude)
			continue
		}
		paths = append(paths, line)
	}
	// Deepest first, which a path's order reversed is.
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(b[min(2, len(b)):], a[min(2, len(a)):]) })
	var (
		errs   []error
		fd     = -1
		parent string
	)
	shut := func() {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	defer func() { shut() }()
	for _, line := range slices.Compact(paths) {
		kind, path, _ := strings.Cut(line, " ")
		if dir := filepath.Dir(path); fd < 0 || dir != parent {
			shut()
			fd, err = openParent(dir)
			if errors.Is(err, unix.EACCES) {
				again := unshut(dir)
				defer again()
				fd, err = openParent(dir)
			}
			if err != nil {
				fd, left = -1, true
				if err := ignoring(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP); err != nil {
					errs = append(errs, fmt.Errorf("remove stub %s: %w", path, err))
				}
				continue // gone, or a program's own by now
			}
			parent = dir
		}
		gone, err := away(kind, path, fd, pools)
		if errors.Is(err, unix.EACCES) {
			again := unshut(parent)
			gone, err = away(kind, path, fd, pools)
			again()
		}
		left = left || !gone
		if err != nil {
			errs = append(errs, fmt.Errorf("remove stub %s: %w", path, err))
		}
	}
	for _, exclude := range excludes { // once nothing is left that git could show
		if err := unhide(journal, exclude); err != nil {
			errs = append(errs, fmt.Errorf("remove held names from %s: %w", exclude, err))
		}
	}
	if err := os.Remove(journal); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("remove stubs: %w", err))
	}
	return left, errors.Join(errs...)
}

// away takes one stub away, in its folder. gone tells that nothing is left of it, and that
// nothing was in it.
func away(kind, path string, dir int, pools map[string]*pool) (gone bool, err error) {
	if was, kept := keptOf(kind, path, pools); kept != nil && !(kind == "d" && needed(path)) {
		if done, err := kept.put(was, dir); done || err != nil {
			return done, err
		}
	}
	if kind == "d" && needed(path) {
		return false, nil
	}
	// Of anything but an empty folder this removes nothing.
	flags, name := unix.AT_REMOVEDIR, filepath.Base(path)
	switch kind {
	case "f":
		was := Stub{Rel: path, Kind: File}
		fd, _, ok := was.open(dir, name)
		if !ok {
			return false, nil // gone, or a program's own by now
		}
		defer unix.Close(fd)
		if !was.says(fd) {
			return false, nil
		}
		flags = 0
	case "s":
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && uint32(st.Mode)&unix.S_IFMT == unix.S_IFSOCK {
			flags = 0
		}
	}
	err = rawcall.Unlinkat(dir, name, flags)
	return err == nil || errors.Is(err, unix.ENOENT), ignoring(err, unix.ENOENT, unix.ENOTEMPTY, unix.ENOTDIR)
}

// needed tells of a stub without which git of the host would take a project's top for a
// repository, since its .git is none any more. It stays until the next session of the
// project finds one.
func needed(path string) bool {
	dir, name := filepath.Split(path)
	if name != gitdir.TopGuard {
		return false
	}
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	git := filepath.Join(dir, ".git")
	if fi, err := os.Lstat(git); err == nil && fi.Mode().IsRegular() {
		return false // git looks nowhere else then
	}
	return !gitdir.Valid(git)
}

// ignoring is err unless it is one of those.
func ignoring(err error, those ...error) error {
	for _, e := range those {
		if errors.Is(err, e) {
			return nil
		}
	}
	return err
}
