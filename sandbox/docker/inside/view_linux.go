package inside

import (
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/plan"
	"cloister/sandbox/remount"
)

// viewer is the gate's thread in the agent's mount namespace, and the hand of a plan there.
type viewer struct {
	Build
	proc int // the gate's own /proc
	root int // a detached, writable copy of the mount at /, without what lies on it
	real map[string]string

	stores map[string]int // detached mounts of what overlays keep, by their places in the gate
	taken  map[string]int // detached copies of what the engine mounted and is to be shown
	spaces []*os.File     // user namespaces that Bind.Space counts
}

// view enters the agent's mounts, finishes them and keeps them. It says on done
// how the finishing went. Its thread is no other goroutine's any more.
func view(l Line, files []*os.File, b Build, done chan<- error) {
	runtime.LockOSThread()
	v := &viewer{Build: b, proc: -1, root: -1, real: map[string]string{}, taken: map[string]int{}}
	err := v.enter(files[0], files[1])
	if err == nil {
		v.spaces = files[3:]
		err = v.build()
	}
	done <- err
	if err != nil || len(b.Protect) == 0 {
		return
	}
	if err := v.keep(); err != nil {
		// The shim ends the cloister; where it is gone it has ended already.
		_ = l.Fail(fmt.Errorf("keep protected paths: %w", err))
	}
}

func (v *viewer) enter(mounts, uts *os.File) error {
	defer mounts.Close()
	defer uts.Close()
	var err error
	if v.proc, err = unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open /proc: %w", err)
	}
	if err := v.takeStores(); err != nil {
		return err
	}
	if err := unix.Setns(int(uts.Fd()), unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("enter the UTS namespace: %w", err)
	}
	if err := unix.Sethostname([]byte(v.Host)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := unix.Setdomainname(nil); err != nil {
		return fmt.Errorf("set domain name: %w", err)
	}
	// A thread with a working folder of its own may change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leave the other threads' folder: %w", err)
	}
	if err := unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the mount namespace: %w", err)
	}
	return nil
}

func (v *viewer) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("copy the root's mount: %w", err)
	}
	v.root = fd
	defer unix.Close(fd)
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH,
		&unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY,
			Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}); err != nil {
		return fmt.Errorf("open the root for writing: %w", err)
	}
	defer v.letGo()
	f, err := v.bare()
	if err != nil {
		return fmt.Errorf("take surplus mounts away: %w", err)
	}
	p := plan.New(f)
	for _, step := range append(p.Ground(), p.Rest(v.spec())...) {
		if err := v.do(step); err != nil {
			return err
		}
	}
	return nil
}

// spec is what of the Spec a view depends on.
func (v *viewer) spec() sandbox.Spec {
	s := sandbox.Spec{
		Name: v.Host, User: sandbox.User{ID: v.User.UID, Name: v.User.Name, Home: sandbox.GuestPath(v.User.Home)},
		Peers: v.Peers, Files: v.Files, Links: v.Links, Protect: v.Protect,
	}
	for _, b := range v.Binds {
		s.Binds = append(s.Binds, sandbox.Bind{Target: sandbox.GuestPath(b.Target), Overlay: b.Overlay})
	}
	return s
}

// do executes a step of the plan on what the engine made.
func (v *viewer) do(one plan.Step) error {
	said := func(doing string, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		return nil
	}
	switch s := one.(type) {
	case plan.Folder:
		return said("make files", v.folder(s.Path))
	case plan.File:
		return said("make files", v.file(string(s.Path), s.Data, s.Mode))
	case plan.Link:
		return said("make files", v.link(s.Link))
	case plan.Bind:
		return said("show folders", v.bind(string(s.Target)))
	case plan.Memory:
		// runc gives it the mode that the image's folder has.
		return said("open the temporary folder "+s.Path, unix.Chmod(s.Path, 0o1777))
	case plan.Terminals:
		// The engine's have no bound.
		options := fmt.Sprintf("newinstance,ptmxmode=0666,mode=0620,max=%d", s.Most)
		return said("bound terminals", unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, options))
	case plan.Null:
		return said("close "+s.Path, v.null(s.Path))
	case plan.Cover:
		err := v.cover(s.Protect)
		if s.Fleeting && errors.Is(err, unix.ENOENT) {
			return nil
		}
		return said("protect "+string(s.Target), err)
	case plan.Seal:
		return v.seal()
	default:
		return fmt.Errorf("%T: no step of a container's view", s)
	}
}

// seal closes the door to the shim and makes the root read-only.
func (v *viewer) seal() error {
	if err := unix.Unmount(Door, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("close the door: %w", err)
	}
	// The engine's own mounts too, those that lie covered as well.
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}); err != nil {
		return fmt.Errorf("restrict the root: %w", err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}); err != nil {
		return fmt.Errorf("restrict the root: %w", err)
	}
	return nil
}

// open opens a path of the view. Links of the image lead nowhere but inside.
func open(name string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, name,
		&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", name, err)
	}
	return fd, nil
}

// openBelow opens a path itself, never through a link: below a folder that the
// agent writes an earlier session may have planted one.
func (v *viewer) openBelow(name string) (int, error) {
	base := ""
	for _, b := range v.Binds {
		if (b.Target == name || strings.HasPrefix(name, b.Target+"/")) && len(b.Target) > len(base) {
			base = b.Target
		}
	}
	if base == "" || base == name {
		return open(name)
	}
	at, err := open(base)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	fd, err := unix.Openat2(at, strings.TrimPrefix(name, base+"/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", name, err)
	}
	return fd, nil
}

// where is the path of a descriptor, as the list of mounts has it.
func (v *viewer) where(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(v.proc, "thread-self/fd/"+strconv.Itoa(fd), buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// mounts reads this thread's list of mounts.
func (v *viewer) mounts() ([]remount.Mount, error) {
	f, err := v.mountinfo()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return remount.Read(f)
}

func (v *viewer) mountinfo() (*os.File, error) {
	fd, err := unix.Openat(v.proc, "thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open mountinfo: %w", err)
	}
	return os.NewFile(uintptr(fd), "mountinfo"), nil
}

func mountID(fd int) (int, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, &st); err != nil {
		return 0, err
	}
	return int(st.Mnt_id), nil
}

// same refuses what is not what the shim meant: the engine looks names up anew.
func (v *viewer) same(fd int, b Bind) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Dev != b.Device || st.Ino != b.Inode {
		return fmt.Errorf("%s: the engine shows another file than the one of this machine", b.Target)
	}
	return nil
}

func restrict(fd int, set uint64) error {
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: set}); err != nil {
		return fmt.Errorf("restrict mount: %w", err)
	}
	return nil
}

func attach(fd, at int) error {
	return unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// bind lays the copy of what the engine mounted on it: with what the Spec says of it, on every
// mount below it too, and its owner shown as the payload.
func (v *viewer) bind(target string) error {
	fd := v.taken[target]
	if target == plan.CPUs {
		if err := v.folder(target); err != nil {
			return err
		}
		return v.attachCopy(fd, target)
	}
	b := v.Binds[slices.IndexFunc(v.Binds, func(b Bind) bool { return b.Target == target })]
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if b.ReadOnly || b.Overlay { // an overlay's lower is never written
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if b.Space > 0 {
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(v.spaces[b.Space-1].Fd())
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return fmt.Errorf("restrict mount of %s: %w", target, err)
	}
	if b.Overlay {
		over, err := v.overlay(b, fd)
		if err != nil {
			return fmt.Errorf("%s of %s: %w", LayOverlay, target, err)
		}
		defer unix.Close(over)
		fd = over
	}
	if err := v.attachCopy(fd, target); err != nil {
		return err
	}
	var err error
	if v.real[target], err = v.where(fd); err != nil {
		return fmt.Errorf("find %s: %w", target, err)
	}
	return v.way(target)
}

func (v *viewer) attachCopy(fd int, target string) error {
	at, err := open(target)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := attach(fd, at); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	return nil
}

// letGo closes what was taken for the view.
func (v *viewer) letGo() {
	for _, fd := range v.taken {
		unix.Close(fd)
	}
	for _, f := range v.spaces {
		f.Close()
	}
}

// passable is the right of everybody to go through a folder.
const passable = 0o111

// way lets the command through the folders of the image on the way to what is
// shown: many a /root is root's alone, and so would be a folder of the host's in
// it. What else lies there keeps its own rights.
func (v *viewer) way(target string) error {
	for dir := path.Dir(target); dir != "/"; dir = path.Dir(dir) {
		fd, err := v.at(dir, unix.O_RDONLY|unix.O_DIRECTORY)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			continue // below another folder of the host's
		}
		if err != nil {
			return fmt.Errorf("open the way to %s: %w", target, err)
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		if err == nil && st.Mode&passable != passable {
			err = unix.Fchmod(fd, st.Mode&0o777|passable)
		}
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("open the way to %s: %w", target, err)
		}
	}
	return nil
}
