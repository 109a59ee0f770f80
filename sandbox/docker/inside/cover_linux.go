package inside

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"cloister/sandbox"

	"golang.org/x/sys/unix"
)

// weed takes every mount away that no one asked for: the engine's files of /etc,
// an image's volumes, /sys but for the list of processors.
func (v *viewer) weed() error {
	wanted := map[int]bool{}
	for _, b := range v.Binds {
		fd, err := open(b.Target)
		if err != nil {
			return err
		}
		err = v.same(fd, b)
		if err == nil {
			var id int
			if id, err = mountID(fd); err == nil {
				wanted[id] = true
			}
		}
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	list, err := v.mounts()
	if err != nil {
		return err
	}
	for _, m := range list { // parents stand before their children
		if wanted[m.Parent] {
			wanted[m.ID] = true
		}
	}
	for _, m := range slices.Backward(list) {
		switch {
		case wanted[m.ID], m.At == "/", m.At == "/dev", m.At == "/proc", strings.HasPrefix(m.At, "/dev/"),
			strings.HasPrefix(m.At, "/proc/"),
			m.At == Program, m.At == Door, slices.Contains(v.Tmpfs, m.At), m.At == "/sys", strings.HasPrefix(m.At, "/sys/"):
		default:
			if err := unix.Unmount(m.At, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				return fmt.Errorf("%s: %w", m.At, err)
			}
		}
	}
	return v.weedSys()
}

const cpus = "/sys/devices/system/cpu"

// weedSys leaves of /sys the list of processors, which runtimes size their pools by.
func (v *viewer) weedSys() error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, cpus, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("copy the mount of %s: %w", cpus, err)
	}
	defer unix.Close(fd)
	if err := unix.Unmount("/sys", unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("/sys: %w", err)
	}
	if err := v.folder(cpus); err != nil {
		return err
	}
	if err := restrict(fd,
		unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return err
	}
	at, err := open(cpus)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	return attach(fd, at)
}

// mask closes what the engine leaves open: of the first process, and what an engine
// did not close that has lists of its own, as Podman does.
func (v *viewer) mask() error {
	for _, name := range MaskedPaths() {
		if masked(name) != nil {
			fi, err := os.Stat(name)
			if err == nil {
				err = v.cover(sandbox.Protect{Target: sandbox.GuestPath(name), Empty: true, File: !fi.IsDir()})
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	for _, name := range ReadOnlyPaths() {
		if err := heldReadOnly(name); err != nil && !errors.Is(err, unix.ENOENT) {
			if err := v.cover(sandbox.Protect{Target: sandbox.GuestPath(name)}); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/null", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := restrict(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID); err != nil {
		return err
	}
	at, err := open("/proc/1/cmdline")
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := attach(fd, at); err != nil {
		return err
	}
	// Each of its threads shows the command line once more.
	return v.cover(sandbox.Protect{Target: "/proc/1/task", Empty: true})
}

// protect lays read-only mounts over the writable ones, ancestors first.
func (v *viewer) protect(list []sandbox.Protect) error {
	for _, t := range list {
		if err := v.cover(t); err != nil && !(t.Fleeting && errors.Is(err, unix.ENOENT)) {
			return fmt.Errorf("%s: %w", t.Target, err)
		}
	}
	return nil
}

// cover mounts a path on itself, read-only or pinned writable, or hides it behind
// something else. A symbolic link is held like a file.
func (v *viewer) cover(t sandbox.Protect) error {
	at, err := v.openBelow(string(t.Target))
	if err != nil {
		return err
	}
	defer unix.Close(at)
	from, name := at, ""
	switch {
	case t.Instead != "":
		from, name = unix.AT_FDCWD, string(t.Instead)
	case t.Empty && t.File:
		from, name = unix.AT_FDCWD, blank
	case t.Empty:
		from, name = unix.AT_FDCWD, nothing
	}
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC)
	if from == at {
		flags |= unix.AT_EMPTY_PATH | unix.AT_RECURSIVE
	}
	fd, err := unix.OpenTree(from, name, flags)
	if err != nil {
		return fmt.Errorf("copy mount: %w", err)
	}
	defer unix.Close(fd)
	if !t.Pin {
		if err := restrict(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	if err := attach(fd, at); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}
