package lsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// groupRoots are where the second version of control groups may lie (internal/cgroup).
var groupRoots = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}

// groupRoot is where it lies here.
func groupRoot() (string, error) {
	for _, dir := range groupRoots {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir, nil
		}
	}
	return "", &Unsupported{
		Reason: "no control groups of version 2", Fix: "mount them: mount -t cgroup2 none /sys/fs/cgroup",
	}
}

// groupOf is the id of a control group, by its folder, and the levels at which it may be, as bits. No
// control group is ever moved to another one.
func groupOf(dir *os.File) (id, levels uint64, err error) {
	root, err := groupRoot()
	if err != nil {
		return 0, 0, err
	}
	var group, all unix.Stat_t
	var kept unix.Statx_t // as the kernel has it: another file system, of a user's, may never answer
	const flags = unix.AT_EMPTY_PATH | unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC
	err = errors.Join(unix.Statx(int(dir.Fd()), "", flags, unix.STATX_TYPE, &kept), unix.Stat(root, &all))
	if err == nil && unix.Mkdev(kept.Dev_major, kept.Dev_minor) == all.Dev {
		err = unix.Fstat(int(dir.Fd()), &group)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("find control group %s: %w", dir.Name(), err)
	}
	if group.Dev != all.Dev || group.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, 0, fmt.Errorf("find control group: %s is none below %s", dir.Name(), root)
	}
	depth, top, err := above(dir, group)
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("find control group %s: %w", dir.Name(), err)
	case depth == 0:
		return 0, 0, fmt.Errorf("find control group: %s is none below %s", dir.Name(), root)
	case depth >= maxLevels:
		return 0, 0, fmt.Errorf("find control group: %s lies below %d others, %d are looked at", dir.Name(), depth, maxLevels)
	}
	if top != 1 { // the root of a namespace, or of a mount: the kernel counts from the real one
		for i := depth; i < maxLevels; i++ {
			levels |= 1 << i
		}
		return group.Ino, levels, nil
	}
	return group.Ino, 1 << depth, nil
}

// above is how many control groups there are above a folder, and the id of the topmost that is seen.
func above(dir *os.File, at unix.Stat_t) (depth int, top uint64, err error) {
	fd, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { unix.Close(fd) }()
	for ; depth < maxLevels && at.Ino != 1; depth++ {
		up, err := unix.Openat(fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, 0, err
		}
		unix.Close(fd)
		fd = up
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return 0, 0, err
		}
		if st.Dev != at.Dev || st.Ino == at.Ino {
			break
		}
		at = st
	}
	return depth, at.Ino, nil
}

// Holds says why the kernel judges nothing of a control group, by the programs of whatever version of
// us; nil where it does.
func Holds(group string) error {
	dir, err := os.Open(group)
	if err != nil {
		return fmt.Errorf("find control group: %w", err)
	}
	id, _, err := groupOf(dir)
	dir.Close()
	if err != nil {
		return err
	}
	pinned, err := filepath.Glob(Pins + "/" + pinPrefix + "*/map-" + objectsMapSessions)
	if err != nil {
		return fmt.Errorf("find the sessions of the LSM: %w", err)
	}
	for _, name := range pinned {
		sessions, err := ebpf.LoadPinnedMap(name, &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			return fmt.Errorf("find the sessions of the LSM: %w", err)
		}
		text, err := sessions.LookupBytes(id)
		sessions.Close()
		if err == nil && text != nil {
			return nil
		}
	}
	return Gone()
}

// Gone says that a control group is judged no more.
func Gone() error {
	return &Unsupported{Reason: "the kernel's judge of this session is gone", Fix: "end it and start it again"}
}

// maxLevels is LEVELS of bpf/lsm.bpf.c.
const maxLevels = 16

// fileidKernfs is the type of the handle of a control group (include/linux/exportfs.h).
const fileidKernfs = 0xfe

// groupExists reports whether a control group of this id is there. Ids are not reused.
func groupExists(id uint64) (bool, error) {
	root, err := groupRoot()
	if err != nil {
		return false, err
	}
	f, err := os.Open(root)
	if err != nil {
		return false, fmt.Errorf("find control group: %w", err)
	}
	defer f.Close()
	handle := unix.NewFileHandle(fileidKernfs, binary.NativeEndian.AppendUint64(nil, id))
	fd, err := unix.OpenByHandleAt(int(f.Fd()), handle, unix.O_PATH|unix.O_CLOEXEC)
	switch {
	case err == nil:
		unix.Close(fd)
		return true, nil
	case errors.Is(err, unix.ESTALE) || errors.Is(err, unix.ENOENT):
		return false, nil
	}
	return true, fmt.Errorf("find control group: %w", err)
}
