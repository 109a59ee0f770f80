package lsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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

// groupOf is the id of a control group, and the levels at which it may be, as bits.
func groupOf(dir string) (id, levels uint64, err error) {
	root, err := groupRoot()
	if err != nil {
		return 0, 0, err
	}
	var group, top unix.Stat_t
	if err := errors.Join(unix.Stat(dir, &group), unix.Stat(root, &top)); err != nil {
		return 0, 0, fmt.Errorf("find control group %s: %w", dir, err)
	}
	below, err := filepath.Rel(root, dir)
	if err != nil || below == "." || strings.HasPrefix(below, "..") || group.Dev != top.Dev {
		return 0, 0, fmt.Errorf("find control group: %s is none below %s", dir, root)
	}
	depth := strings.Count(below, "/") + 1
	if depth >= maxLevels {
		return 0, 0, fmt.Errorf("find control group: %s lies below %d others, %d are looked at", dir, depth, maxLevels)
	}
	if top.Ino != 1 { // the root of a namespace: the kernel counts from the real one
		for i := depth; i < maxLevels; i++ {
			levels |= 1 << i
		}
		return group.Ino, levels, nil
	}
	return group.Ino, 1 << depth, nil
}

// Holds says why the kernel judges nothing of a control group, by the programs of whatever version of
// us; nil where it does.
func Holds(group string) error {
	id, _, err := groupOf(group)
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
