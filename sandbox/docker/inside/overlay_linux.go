package inside

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// LayOverlay begins what is said of an overlay that cannot be laid.
const LayOverlay = "lay the overlay"

// stage is a folder of the agent's root on which an overlay is put together. It is empty
// again before the command starts.
const stage = Folder + "/stage"

// takeStores takes a detached copy of each store's mount, while this thread is still among
// the gate's own mounts: the agent's container never has them.
func (v *viewer) takeStores() error {
	v.stores = map[string]int{}
	for _, b := range v.Binds {
		if b.Upper == nil {
			continue
		}
		fd, err := unix.OpenTree(unix.AT_FDCWD, b.Upper.At, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("copy the mount of the store for %s: %w", b.Target, err)
		}
		v.stores[b.Target] = fd
		meant := Bind{Target: string(b.Upper.Store), Device: b.Upper.Device, Inode: b.Upper.Inode}
		if err := v.same(fd, meant); err != nil {
			return err
		}
	}
	return nil
}

// overlay lays what is written to a bind over a detached, read-only copy of it. All that
// the overlay does to its layers it does as the payload's user, as natively: they have one
// owner, whichever driver made them. Its folders are named relative to the stage, so that
// no path of the host or the gate stands in the list of mounts.
func (v *viewer) overlay(b Bind, below int) (_ int, err error) {
	options := "mode=0755,size=25%,nr_inodes=1m"
	if b.Upper != nil {
		options = "mode=0755,size=64k,nr_inodes=8" // for three folders
	}
	options += fmt.Sprintf(",uid=%d,gid=%d", v.User.UID, v.User.GID)
	if err := v.folder(stage); err != nil {
		return -1, err
	}
	if err := unix.Mount("stage", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return -1, fmt.Errorf("mount the stage: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Chdir("/"), unix.Unmount(stage, unix.MNT_DETACH)) }()
	if err := unix.Chdir(stage); err != nil {
		return -1, err
	}
	set, err := v.layers(b, below)
	if err != nil {
		return -1, err
	}
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open: %w", err)
	}
	defer unix.Close(fs)
	for _, o := range set {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, fmt.Errorf("set %s: %w", o[0], err)
		}
	}
	if err := unix.FsconfigSetFlag(fs, "userxattr"); err != nil {
		return -1, fmt.Errorf("set userxattr: %w", err)
	}
	if err := v.asUser(func() error { return unix.FsconfigCreate(fs) }); err != nil {
		return -1, fmt.Errorf("create: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return -1, fmt.Errorf("mount: %w", err)
	}
	return fd, nil
}

// layers puts the overlay's folders on the stage, and gives the options that name them.
func (v *viewer) layers(b Bind, below int) (set [][2]string, err error) {
	if err := v.asUser(func() error {
		return errors.Join(unix.Mkdir("lower", 0o755), unix.Mkdir("upper", 0o755), unix.Mkdir("work", 0o755))
	}); err != nil {
		return nil, fmt.Errorf("make folders: %w", err)
	}
	if err := attachAt(below, "lower"); err != nil {
		return nil, err
	}
	// An index would hold an upper to the very folder below it, which may be replaced
	// between two sessions. Natively there is none either: it needs more than a user has.
	set = [][2]string{{"source", "workspace"}, {"index", "off"}}
	if b.Upper == nil {
		return append(set, [][2]string{{"lowerdir", "lower"}, {"upperdir", "upper"}, {"workdir", "work"}}...), nil
	}
	store := v.stores[b.Target]
	defer unix.Close(store)
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if b.Upper.Space > 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(v.spaces[b.Upper.Space-1].Fd())
	}
	if err := unix.MountSetattr(store, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return nil, fmt.Errorf("restrict the mount of its store: %w", err)
	}
	if err := attachAt(store, "upper"); err != nil {
		return nil, err
	}
	set = append(set, [2]string{"upperdir", "upper/" + b.Upper.Dir}, [2]string{"workdir", "upper/" + b.Upper.Work})
	for _, layer := range b.Upper.Lower {
		set = append(set, [2]string{"lowerdir+", "upper/" + layer})
	}
	return append(set, [2]string{"lowerdir+", "lower"}), nil
}

// attachAt attaches a detached mount to a folder of the stage.
func attachAt(mount int, name string) error {
	if err := unix.MoveMount(mount, "", unix.AT_FDCWD, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", name, err)
	}
	return nil
}

// asUser does something as the payload's user on files, who may besides go through folders of
// mode 0: overlayfs keeps its own so. What the command may is asked of the overlay first,
// with its own rights. The thread is this goroutine's own.
func (v *viewer) asUser(do func() error) error {
	defer func() { _ = be(0, 0) }() // which every process may that is root
	if err := be(v.User.UID, v.User.GID); err != nil {
		return err
	}
	thread := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&thread, &sets[0]); err != nil {
		return fmt.Errorf("look at capabilities: %w", err)
	}
	sets[0].Effective |= 1 << unix.CAP_DAC_OVERRIDE // which another user's files have taken away
	if err := unix.Capset(&thread, &sets[0]); err != nil {
		return fmt.Errorf("keep a capability: %w", err)
	}
	return do()
}

// be sets whose rights on files this thread has.
func be(uid, gid int) error {
	// The calls report no refusal (setfsuid(2)): an id that is none tells the one in force.
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
	isUID, _ := unix.SetfsuidRetUid(-1)
	isGID, _ := unix.SetfsgidRetGid(-1)
	if isUID != uid || isGID != gid {
		return fmt.Errorf("work on files as user %d: %w", uid, unix.EPERM)
	}
	return nil
}
