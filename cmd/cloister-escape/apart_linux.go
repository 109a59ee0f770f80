package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape/hoststate"
)

// apartWord begins the words of the process that root's attempts are made in.
const apartWord = "apart"

// apart makes root's attempts in mounts of their own: a /dev that is a copy, and
// of the rest only what attempts need to write. Without a layer, and in a control,
// what they do comes off: on this host it shall not.
func apart(ctx context.Context, o options, words []string) error {
	runtime.LockOSThread() // the child is to end with this process, and the kernel goes by the thread
	defer runtime.UnlockOSThread()
	c := exec.CommandContext(ctx, o.Self, append([]string{apartWord}, words...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Go makes them private: nothing that is mounted there appears outside.
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	var ended error
	// In there one sees the mounts and devices of in there.
	err := hoststate.Unchanged(func() error { ended = c.Run(); return nil })
	if exit, ok := errors.AsType[*exec.ExitError](ended); ok && exit.ExitCode() > 0 && err == nil {
		return &statusError{exit.ExitCode()}
	}
	return errors.Join(ended, err)
}

// settleApart makes what apart promises, in the process that makes the attempts.
func settleApart(o options) error {
	outside, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", os.Getppid()))
	if here, herr := os.Readlink("/proc/self/ns/mnt"); err != nil || herr != nil || here == outside {
		return wrong("%s is this program's own word: what follows would change the mounts of this host", apartWord)
	}
	if err := ownDevices(); err != nil {
		return fmt.Errorf("make devices apart: %w", err)
	}
	free := []string{"/tmp", "/dev", "/proc", "/sys", o.Dir}
	for _, file := range []string{o.holds, o.columns, o.Kind.Images} { // a store of images is written as it is used
		if file != "" {
			free = append(free, filepath.Dir(file))
		}
	}
	return readOnlyBut(free)
}

// readOnlyBut makes all mounts read-only but those of some folders and below
// them, which stay as they are: in a container much of /proc and /sys is read-only.
func readOnlyBut(free []string) error {
	trees := make([]int, len(free))
	for i, dir := range free {
		tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("leave %s as it is: %w", dir, err)
		}
		defer unix.Close(tree)
		trees[i] = tree
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make the host read-only: %w", err)
	}
	for i, dir := range free {
		if err := unix.MoveMount(trees[i], "", unix.AT_FDCWD, dir,
			unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
			return fmt.Errorf("leave %s as it is: %w", dir, err)
		}
	}
	return nil
}

// ownDevices puts a copy of /dev in its place: the kernel's own is one and the
// same wherever it is mounted.
func ownDevices() error {
	at, err := os.MkdirTemp("", "dev")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(at) }()
	if err := unix.Mount("dev", at, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	if err := copyDevices("/dev", at); err != nil {
		return errors.Join(err, unix.Unmount(at, unix.MNT_DETACH))
	}
	return unix.Mount(at, "/dev", "", unix.MS_MOVE, "")
}

// copyDevices copies nodes and links, and shows what is mounted below as it is.
// What goes meanwhile was none to rely on.
func copyDevices(from, to string) error {
	var top unix.Stat_t
	if err := unix.Stat(from, &top); err != nil {
		return err
	}
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, d := range list {
		source, target := filepath.Join(from, d.Name()), filepath.Join(to, d.Name())
		err := copyDevice(source, target, top.Dev)
		if _, gone := os.Lstat(source); err != nil && !errors.Is(gone, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	return nil
}

func copyDevice(source, target string, device uint64) error {
	var st unix.Stat_t
	if err := unix.Lstat(source, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return link(source, target)
	case unix.S_IFDIR:
		if err := os.Mkdir(target, 0o755); err != nil {
			return err
		}
		if st.Dev != device {
			return unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
		}
		return errors.Join(copyDevices(source, target), os.Chmod(target, fs.FileMode(st.Mode&0o777)))
	case unix.S_IFCHR, unix.S_IFBLK:
		return errors.Join(unix.Mknod(target, st.Mode, int(st.Rdev)), os.Chown(target, int(st.Uid), int(st.Gid)),
			unix.Chmod(target, st.Mode&0o7777))
	}
	return nil
}

func link(source, target string) error {
	to, err := os.Readlink(source)
	if err != nil {
		return err
	}
	return os.Symlink(to, target)
}

// isApart takes the word away that says that this process is the one apart.
func isApart(words []string) ([]string, bool) {
	if len(words) > 0 && words[0] == apartWord {
		return slices.Clone(words[1:]), true
	}
	return words, false
}
