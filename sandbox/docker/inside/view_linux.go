package inside

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/gate"
	"cloister/sandbox/remount"
)

// viewer is the gate's thread in the agent's mount namespace.
type viewer struct {
	Build
	proc int // the gate's own /proc
	root int // a detached, writable copy of the mount at /, without what lies on it
	real map[string]string

	stores map[string]int // detached mounts of what overlays keep, by their places in the gate
}

// view enters the agent's mounts, finishes them and keeps them. It says on done
// how the finishing went. Its thread is no other goroutine's any more.
func view(l Line, files []*os.File, b Build, done chan<- error) {
	runtime.LockOSThread()
	v := &viewer{Build: b, proc: -1, root: -1, real: map[string]string{}}
	err := v.enter(files[0], files[1])
	if err == nil {
		err = v.build(files[3:])
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

func (v *viewer) build(spaces []*os.File) error {
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
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"take surplus mounts away", v.weed},
		{"show folders", func() error { return v.binds(spaces) }},
		{"open the way to them", v.ways},
		{"open temporary folders", v.temporary},
		{"bound terminals", v.terminals},
		{"make files", v.files},
		{"close the kernel's files", v.mask},
		{"protect", func() error { return v.protect(v.Protect) }},
		{"close the door", func() error { return unix.Unmount(Door, unix.MNT_DETACH) }},
		{"restrict the root", func() error {
			// The engine's own mounts too, those that lie covered as well.
			if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE,
				&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}); err != nil {
				return err
			}
			return unix.MountSetattr(unix.AT_FDCWD, "/", 0,
				&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV})
		}},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
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

// binds lays a copy on each bind of the engine's: with what the Spec says of it,
// on every mount below it too, and its owner shown as the payload.
func (v *viewer) binds(spaces []*os.File) error {
	copies := make([]int, 0, len(v.Binds))
	defer func() {
		for _, fd := range copies {
			unix.Close(fd)
		}
	}()
	for _, b := range v.Binds {
		fd, err := unix.OpenTree(unix.AT_FDCWD, b.Target, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("copy the mount of %s: %w", b.Target, err)
		}
		copies = append(copies, fd)
	}
	for i, b := range v.Binds {
		attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
		if b.ReadOnly || b.Overlay { // an overlay's lower is never written
			attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		}
		if b.Space > 0 {
			attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
			attr.Userns_fd = uint64(spaces[b.Space-1].Fd())
		}
		if err := unix.MountSetattr(copies[i], "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
			return fmt.Errorf("restrict mount of %s: %w", b.Target, err)
		}
		if b.Overlay {
			over, err := v.overlay(b, copies[i], spaces)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", LayOverlay, b.Target, err)
			}
			unix.Close(copies[i])
			copies[i] = over
		}
		at, err := open(b.Target)
		if err != nil {
			return err
		}
		err = attach(copies[i], at)
		unix.Close(at)
		if err != nil {
			return fmt.Errorf("mount %s: %w", b.Target, err)
		}
		if v.real[b.Target], err = v.where(copies[i]); err != nil {
			return fmt.Errorf("find %s: %w", b.Target, err)
		}
	}
	for _, f := range spaces {
		f.Close()
	}
	return nil
}

// passable is the right of everybody to go through a folder.
const passable = 0o111

// ways lets the command through the folders of the image on the way to what is
// shown: many a /root is root's alone, and so would be a folder of the host's in
// it. What else lies there keeps its own rights.
func (v *viewer) ways() error {
	for _, b := range v.Binds {
		for dir := path.Dir(b.Target); dir != "/"; dir = path.Dir(dir) {
			fd, err := v.at(dir, unix.O_RDONLY|unix.O_DIRECTORY)
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
				continue // below another folder of the host's
			}
			if err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
			var st unix.Stat_t
			err = unix.Fstat(fd, &st)
			if err == nil && st.Mode&passable != passable {
				err = unix.Fchmod(fd, st.Mode&0o777|passable)
			}
			unix.Close(fd)
			if err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
		}
	}
	return nil
}

// at resolves a name on the root's own file system: no mount, no link leads out.
func (v *viewer) at(name string, flags uint64) (int, error) {
	name = strings.TrimPrefix(name, "/")
	if name == "" {
		name = "."
	}
	return unix.Openat2(v.root, name, &unix.OpenHow{
		Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// folder makes a folder and those above it, where they are missing.
func (v *viewer) folder(name string) error {
	fd, err := v.at(name, unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		return unix.Close(fd)
	}
	if name == "/" {
		return err
	}
	if err := v.folder(path.Dir(name)); err != nil {
		return err
	}
	up, err := v.at(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("make folder %s: %w", name, err)
	}
	defer unix.Close(up)
	err = unix.Mkdirat(up, path.Base(name), 0o755)
	if errors.Is(err, unix.EEXIST) {
		// The image has something else there: a file, or a link that leads nowhere.
		if err = unix.Unlinkat(up, path.Base(name), 0); err == nil {
			err = unix.Mkdirat(up, path.Base(name), 0o755)
		}
	}
	if err != nil {
		return fmt.Errorf("make folder %s: %w", name, err)
	}
	return nil
}

// above opens the folder of a name, made where it is missing, and takes away what
// the image has under the name, so that no link of it is followed.
func (v *viewer) above(name string) (int, error) {
	dir := path.Dir(name)
	if err := v.folder(dir); err != nil {
		return -1, err
	}
	return v.at(dir, unix.O_PATH|unix.O_DIRECTORY)
}

func (v *viewer) file(name string, data []byte, mode uint32) error {
	up, err := v.above(name)
	if err != nil {
		return err
	}
	defer unix.Close(up)
	if err := unix.Unlinkat(up, path.Base(name), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	fd, err := unix.Openat(up, path.Base(name), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		mode)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	return errors.Join(err, unix.Fchmod(fd, mode), f.Close())
}

func (v *viewer) link(l sandbox.Link) error {
	up, err := v.above(string(l.Path))
	if err != nil {
		return err
	}
	defer unix.Close(up)
	name := path.Base(string(l.Path))
	var st unix.Stat_t
	if err := unix.Fstatat(up, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return nil // what the image has there is as good
		}
		if err := unix.Unlinkat(up, name, 0); err != nil {
			return fmt.Errorf("replace %s: %w", l.Path, err)
		}
	}
	if err := unix.Symlinkat(l.Target, up, name); err != nil {
		return fmt.Errorf("link %s: %w", l.Path, err)
	}
	return nil
}

// maxNames bounds what is read of an image's lists of users and groups.
const maxNames = 1 << 20

// text reads a small file of the image.
func (v *viewer) text(name, absent string) (string, error) {
	fd, err := v.at(name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return absent, nil // a link that leads out, or nothing: the command gets ours
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || fi.Size() > maxNames {
		return "", fmt.Errorf("the image's %s is no file of names", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxNames))
	return string(b), err
}

// Nothing and blank are a folder and a file of the read-only root that stay empty.
const (
	nothing = Folder + "/nothing"
	blank   = Folder + "/blank"
)

// files makes what a cloister has besides its binds. The first entry of an id
// counts, so the payload's stands before the image's.
func (v *viewer) files() error {
	passwd,
		err := v.text("/etc/passwd",
		"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")
	if err != nil {
		return err
	}
	group, err := v.text("/etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n")
	if err != nil {
		return err
	}
	u := v.User
	if err := v.folder(nothing); err != nil {
		return err
	}
	list := append([]sandbox.File{
		{Path: blank, Mode: 0o444},
		{Path: "/etc/passwd", Data: fmt.Appendf(nil, "%s:x:%d:%d::%s:/bin/sh\n%s", u.Name, u.UID, u.GID, u.Home, passwd),
			Mode: 0o644},
		{Path: "/etc/group", Data: fmt.Appendf(nil, "%s:x:%d:\n%s", u.Name, u.GID, group), Mode: 0o644},
		{Path: "/etc/hostname", Data: []byte(v.Host + "\n"), Mode: 0o644},
		{Path: "/etc/hosts", Data: gate.Hosts(v.Host, v.Peers), Mode: 0o644},
		{Path: "/etc/resolv.conf", Data: []byte("# The guardian answers. No question leaves this cloister.\nnameserver " +
			gate.Addr4 + "\noptions edns0 timeout:3 attempts:2\n"), Mode: 0o644},
		{Path: "/etc/host.conf", Data: []byte("multi on\n"), Mode: 0o644},
		{Path: "/etc/nsswitch.conf", Data: []byte("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: " +
			"files\nprotocols: files\nservices: files\n"), Mode: 0o644},
	}, v.Files...)
	if fd, err := v.at(sandbox.Chromium, unix.O_PATH); err == nil {
		unix.Close(fd)
		list = append(list, sandbox.ChromiumFlags)
	}
	for _, f := range list {
		if err := v.file(string(f.Path), f.Data, f.Mode); err != nil {
			return err
		}
	}
	for _, l := range v.Links {
		if err := v.link(l); err != nil {
			return err
		}
	}
	return nil
}

// temporary gives the temporary folders their mode: runc gives them the one that
// the image's have.
func (v *viewer) temporary() error {
	for _, dir := range v.Tmpfs {
		if err := unix.Chmod(dir, 0o1777); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}

// terminals covers the engine's terminals, which have no bound, with an instance that
// has one.
func (v *viewer) terminals() error {
	options := fmt.Sprintf("newinstance,ptmxmode=0666,mode=0620,max=%d", sandbox.MaxTerminals)
	return unix.Mount("devpts", "/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, options)
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
