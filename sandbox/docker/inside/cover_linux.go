package inside

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"cloister/sandbox"
	"cloister/sandbox/plan"

	"golang.org/x/sys/unix"
)

// bare takes every mount away that no one asked for, takes copies of those that are to be
// shown, and looks at what a plan depends on. All copies are taken before any of them is laid
// on the view: each has below it what the engine mounted there, and nothing of ours.
func (v *viewer) bare() (plan.Facts, error) {
	f := plan.Facts{Base: plan.OnEngine, GID: v.User.GID, BootID: plan.NewBootID()}
	if err := v.weed(); err != nil {
		return f, err
	}
	var err error
	if f.CPUs, err = v.weedSys(); err != nil {
		return f, err
	}
	for _, b := range v.Binds {
		fd, err := unix.OpenTree(unix.AT_FDCWD, b.Target, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return f, fmt.Errorf("copy the mount of %s: %w", b.Target, err)
		}
		v.taken[b.Target] = fd
	}
	// The engine masks what it was told to, but for what is the first process's; Podman has
	// lists of its own.
	for _, name := range MaskedPaths() {
		if masked(name) == nil {
			continue
		}
		fi, err := os.Stat(name)
		if err != nil {
			return f, fmt.Errorf("%s: %w", name, err)
		}
		f.Hide = append(f.Hide, plan.Found{Path: name, Dir: fi.IsDir()})
	}
	for _, name := range plan.ReadOnly() {
		if err := heldReadOnly(name); err != nil && !errors.Is(err, unix.ENOENT) {
			f.Hold = append(f.Hold, name)
		}
	}
	if f.Passwd, err = v.text("/etc/passwd"); err != nil {
		return f, err
	}
	if f.Groups, err = v.text("/etc/group"); err != nil {
		return f, err
	}
	if fd, err := v.at(sandbox.Chromium, unix.O_PATH); err == nil {
		unix.Close(fd)
		f.Chromium = true
	}
	return f, nil
}

// weed takes away the engine's files of /etc and an image's volumes.
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
			m.At == Program, m.At == Door, slices.Contains(plan.Temporary(), m.At),
			m.At == "/sys", strings.HasPrefix(m.At, "/sys/"):
		default:
			if err := unix.Unmount(m.At, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
				return fmt.Errorf("%s: %w", m.At, err)
			}
		}
	}
	return nil
}

// weedSys takes of /sys a copy of the list of processors, and the rest away. It reports whether
// there is one.
func (v *viewer) weedSys() (bool, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, plan.CPUs, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("copy the mount of %s: %w", plan.CPUs, err)
	}
	v.taken[plan.CPUs] = fd
	if err := unix.Unmount("/sys", unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return false, fmt.Errorf("/sys: %w", err)
	}
	return true, restrict(fd,
		unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

// null hides a file of the kernel's behind the null device.
func (v *viewer) null(name string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/dev/null", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := restrict(fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID); err != nil {
		return err
	}
	return v.attachCopy(fd, name)
}

// cover mounts a path on itself, read-only or pinned writable, or hides it behind
// something else. A symbolic link is held like a file.
func (v *viewer) cover(t sandbox.Protect) error {
	at, err := v.openBelow(string(t.Target))
	if err != nil {
		return err
	}
	defer unix.Close(at)
	from, name := at, plan.OnEngine.Behind(t)
	if name != "" {
		from = unix.AT_FDCWD
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
