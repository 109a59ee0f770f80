package native

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// masked are the files and folders of /proc that tell about the host or are
// knobs of its kernel; readOnly are those that programs read but must not write.
// Both follow Docker's lists and add what HARDENING 5.2 names.
var (
	maskedFiles = []string{"kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug", "interrupts",
		"config.gz", "modules", "kallsyms", "kmsg", "sysrq-trigger"}
	maskedFolders = []string{"acpi", "asound", "scsi", "bus", "fs", "irq", "dynamic_debug"}
	readOnlyProc  = []string{"sys"}
)

// maxCopied bounds a file of /etc that is copied instead of mounted: a mount
// costs more than a write of this size, at the start and again at the end.
const maxCopied = 512 << 10

// view adds the steps that build the mount view and enter it.
type view struct {
	p      *program
	root   *int32
	made   map[string]bool  // folders of the tmpfs root
	under  []string         // guest folders that are binds: nothing is made below them
	mounts map[place]*int32 // those that the parent passed, as root
	image  string           // host folder of the root file system; empty: the host's own system
	owned  []string         // folders that stand where the image has something else
	bad    error            // what is wrong with the image
	stage  *stage           // what the view is a folder of, if a hosted kernel shows it
	lent   *Lent            // the user that root builds it for: the user namespace is the host's
}

// beginView makes the part of the view that every cloister has.
func (p *program) beginView(image sandbox.Root, mounts map[place]*int32, h *Hosted, l *Lent) (*view, error) {
	v := &view{p: p, root: p.cell(), made: map[string]bool{"/": true}, image: string(image.Dir), mounts: mounts,
		lent: l}
	if off(layerView) {
		return v, nil
	}
	p.sys("make mounts private", unix.SYS_MOUNT, "", "/", 0, unix.MS_REC|unix.MS_PRIVATE, 0)
	v.base()
	// The new root lies on top of the old one: the old stays reachable by
	// absolute paths, the new by its descriptor.
	if h != nil {
		var err error
		if v.stage, err = p.beginStage(h, mounts); err != nil {
			return nil, err
		}
		v.stage.hold(v.root)
		v.mounts = mounts
	} else {
		p.sys("attach root", unix.SYS_MOVE_MOUNT, v.root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err := v.system(); err != nil {
		return nil, err
	}
	if h != nil {
		v.hostedFolders(h)
		v.mounts = nil
	} else {
		v.proc()
		v.dev()
	}
	v.etc()
	v.folder("/tmp", 0o1777)
	v.mountTmpfs("/tmp", "size=25%", "mode=1777", "nr_inodes=1m")
	for _, d := range []string{"/var", "/run", "/mnt", "/var/cache", "/var/lib", "/var/log", "/home"} {
		v.folder(d, 0o755)
	}
	v.varTmp()
	return v, v.bad
}

// finish adds what the Spec shows, protects it, and makes the view all there is.
func (v *view) finish(s sandbox.Spec) error {
	if err := v.names(s); err != nil {
		return err
	}
	v.apart(s)
	for _, b := range s.Binds {
		v.bind(b)
	}
	for _, f := range s.Files {
		v.compose(f)
	}
	for _, l := range s.Links {
		v.link(string(l.Path), l.Target)
	}
	if !off(layerProtect) {
		v.protect(s.Protect)
	}
	v.enter()
	return v.bad
}

// apart makes /var/tmp a folder where something of the host is shown below it:
// no mount is made through the link to /tmp.
func (v *view) apart(s sandbox.Spec) {
	if !showsBelow(s, varTmpFolder) || v.imageFolder(v.real(varTmpFolder, true)) {
		return
	}
	if v.real("/var", true) == "/var" {
		v.p.sys("remove the link at "+varTmpFolder, unix.SYS_UNLINKAT, v.root, rel(varTmpFolder), 0)
	} else {
		v.own(varTmpFolder) // the link lies where the image's /var leads
	}
	delete(v.made, varTmpFolder) // varTmp made the link that is removed here
	v.folder(varTmpFolder, 0o1777)
	v.tmpAt(varTmpFolder)
}

const varTmpFolder = "/var/tmp"

func showsBelow(s sandbox.Spec, dir string) bool {
	return slices.ContainsFunc(s.Binds, func(b sandbox.Bind) bool { return strings.HasPrefix(string(b.Target), dir+"/") })
}

// rel is a guest path as seen from the new root's descriptor.
func rel(guest string) string {
	if guest == "/" {
		return "."
	}
	return strings.TrimPrefix(guest, "/")
}

func (v *view) tmpfs(out *int32, options ...string) {
	p, fd := v.p, v.p.cell()
	p.sys("open tmpfs", unix.SYS_FSOPEN, "tmpfs", unix.FSOPEN_CLOEXEC).to(fd)
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		p.sys("set tmpfs "+o, unix.SYS_FSCONFIG, fd, unix.FSCONFIG_SET_STRING, key, value, 0)
	}
	p.sys("create tmpfs", unix.SYS_FSCONFIG, fd, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	p.sys("mount tmpfs", unix.SYS_FSMOUNT, fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV).to(out)
	p.sys("close tmpfs", unix.SYS_CLOSE, fd)
}

func (v *view) mountTmpfs(target string, options ...string) {
	fd := v.p.cell()
	v.tmpfs(fd, options...)
	v.attach(fd, target)
}

// at opens a guest path, itself and never through a symbolic link: below a
// writable bind an earlier session may have planted one.
func (v *view) at(guest string) *int32 {
	fd, open := v.open(guest)
	open.to(fd)
	return fd
}

func (v *view) open(guest string) (*int32, *op) {
	guest = v.real(guest, true)
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	return v.p.cell(), v.p.sys("open "+guest, unix.SYS_OPENAT2, v.root, rel(guest), pointerTo(how), unix.SizeofOpenHow)
}

// attach puts a detached mount on a guest path.
func (v *view) attach(fd *int32, target string) {
	at := v.at(target)
	v.attachAt(fd, at, target)
	v.p.sys("close "+target, unix.SYS_CLOSE, at)
}

func (v *view) attachAt(fd, at *int32, target string) {
	v.p.sys("mount "+target, unix.SYS_MOVE_MOUNT, fd, "", at, "",
		unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	v.p.sys("close mount", unix.SYS_CLOSE, fd)
}

// attachIfThere does without a path that is gone, whose descriptor is none then.
func (v *view) attachIfThere(fd *int32, target string) {
	at, open := v.open(target)
	open.or(unix.ENOENT).to(at)
	v.p.sys("mount "+target, unix.SYS_MOVE_MOUNT, fd, "", at, "",
		unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH).or(unix.EBADF, unix.ENOENT)
	v.p.sys("close mount", unix.SYS_CLOSE, fd)
	v.p.sys("close "+target, unix.SYS_CLOSE, at).or(unix.EBADF)
}

func (v *view) restrict(what string, fd *int32, attrs uint64) {
	a := &unix.MountAttr{Attr_set: attrs}
	v.p.sys("restrict mount "+what, unix.SYS_MOUNT_SETATTR, fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, pointerTo(a),
		unix.MOUNT_ATTR_SIZE_VER0)
}

// covered reports whether a guest path lies on a bind, where nothing is made.
func (v *view) covered(guest string) bool {
	return slices.ContainsFunc(v.under, func(u string) bool { return guest == u || strings.HasPrefix(guest, u+"/") })
}

func (v *view) folder(guest string, mode uint32) {
	guest = v.real(guest, true)
	if v.made[guest] || v.covered(guest) {
		return
	}
	if parent := path.Dir(guest); parent != guest {
		v.folder(parent, 0o755)
	}
	v.made[guest] = true
	v.p.sys("make folder "+guest, unix.SYS_MKDIRAT, v.root, rel(guest), uintptr(mode)).or(unix.EEXIST)
}

func (v *view) file(guest string, data []byte, mode uint32) {
	v.compose(sandbox.File{Path: sandbox.GuestPath(guest), Data: data, Mode: mode})
}

// copied shows a file of the host by a copy.
func (v *view) copied(file string) {
	v.compose(sandbox.File{Path: sandbox.GuestPath(file), From: sandbox.HostPath(file), Mode: 0o644})
}

// compose makes a guest file. What it has of a file of the host the kernel
// copies: those bytes never are this process's.
func (v *view) compose(f sandbox.File) {
	guest, from := v.instead(string(f.Path)), string(f.From)
	v.folder(path.Dir(guest), 0o755)
	p := v.p
	fd, how := p.cell(), &unix.OpenHow{
		Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC | unix.O_CLOEXEC | unix.O_NOFOLLOW, Mode: uint64(f.Mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	p.sys("create "+guest, unix.SYS_OPENAT2, v.root, rel(guest), pointerTo(how), unix.SizeofOpenHow).to(fd)
	if len(f.Head) > 0 {
		p.sys("begin "+guest, unix.SYS_WRITE, fd, f.Head, len(f.Head)).want(int64(len(f.Head)))
	}
	if from != "" {
		source, skip := p.cell(), f.Skip
		p.sys("open "+from, unix.SYS_OPENAT, unix.AT_FDCWD, from, unix.O_RDONLY|unix.O_CLOEXEC, 0).to(source)
		copied := p.sys("copy "+from, unix.SYS_SENDFILE, fd, source, pointerTo(&skip), int(cmp.Or(f.Size, maxComposed)))
		if f.Size > 0 {
			copied.want(f.Size)
		}
		p.sys("close "+from, unix.SYS_CLOSE, source)
	}
	if len(f.Data) > 0 {
		p.sys("write "+guest, unix.SYS_WRITE, fd, f.Data, len(f.Data)).want(int64(len(f.Data)))
	}
	p.sys("close "+guest, unix.SYS_CLOSE, fd)
}

// maxComposed bounds what is copied of a host's file: ten times the authorities
// of a distribution.
const maxComposed = 4 << 20

func (v *view) link(guest, target string) {
	if guest = v.instead(guest); v.imageFolder(guest) {
		return // what the image has there is as good
	}
	v.folder(path.Dir(guest), 0o755)
	v.p.sys("link "+guest, unix.SYS_SYMLINKAT, target, v.root, rel(guest))
}

// clone gives a detached copy of a host path's mount, for one place.
func (v *view) clone(where place, out *int32) {
	p, source := v.p, string(where.source)
	if fd, ok := v.mounts[where]; ok {
		p.sys("take mount "+source, unix.SYS_FCNTL, fd, unix.F_DUPFD_CLOEXEC, 3).to(out)
		return
	}
	at, how := p.cell(), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	p.sys("open "+source, unix.SYS_OPENAT2, unix.AT_FDCWD, source, pointerTo(how), unix.SizeofOpenHow).to(at)
	p.sys("clone mount of "+source, unix.SYS_OPEN_TREE, at, "",
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH).to(out)
	p.sys("close "+source, unix.SYS_CLOSE, at)
}

func (v *view) bind(b sandbox.Bind) {
	if !b.File {
		v.own(string(b.Target))
	}
	target := v.real(string(b.Target), !b.File)
	if b.File {
		if !v.covered(target) {
			v.file(target, nil, 0o644)
		}
	} else {
		v.folder(target, 0o755)
	}
	fd := v.p.cell()
	v.clone(placeOf(b), fd)
	attrs := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if b.Access == sandbox.ReadOnly {
		attrs |= unix.MOUNT_ATTR_RDONLY
	}
	if b.Overlay {
		// As much as /tmp may take: a build writes into its project.
		below := fd
		fd = v.p.cell()
		var kept *upper
		if b.Upper != nil {
			kept = &upper{*b.Upper, v.p.cell()}
			v.clone(storeOf(b), kept.store)
		}
		v.overlay("workspace", below, fd, kept, "size=25%", "mode=0755", "nr_inodes=1m")
	}
	v.restrict(target, fd, attrs)
	v.attach(fd, target)
	v.under = append(v.under, target)
}

// nothing is a folder and blank a file of the read-only root that stay empty.
const (
	nothing = "/run/.nothing"
	blank   = "/run/.blank"
	boot    = "/run/.boot_id" // what the cloister has for the kernel's
)

// enter makes the new root the only one and lets go of the host's.
func (v *view) enter() {
	p := v.p
	v.p.sys("make root read-only", unix.SYS_MOUNT_SETATTR, v.root, "", unix.AT_EMPTY_PATH,
		pointerTo(&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}), unix.MOUNT_ATTR_SIZE_VER0)
	root := v.root
	if v.stage != nil {
		root = v.stage.root
	}
	p.sys("go to the new root", unix.SYS_FCHDIR, root)
	p.sys("exchange roots", unix.SYS_PIVOT_ROOT, ".", ".")
	p.sys("let go of the host's files", unix.SYS_UMOUNT2, ".", unix.MNT_DETACH)
	p.sys("go to /", unix.SYS_CHDIR, "/")
	if v.stage != nil {
		v.stage.share()
		p.sys("close the stage", unix.SYS_CLOSE, v.stage.root)
	}
	// A mount that is left on the new root is where its .. leads: the host's, if
	// one more lay on it than was let go of.
	above, how := p.cell(), &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	p.sys("see that nothing lies above /", unix.SYS_OPENAT2, unix.AT_FDCWD, "/..", pointerTo(how),
		unix.SizeofOpenHow).to(above)
	p.sys("close /..", unix.SYS_CLOSE, above)
	p.sys("close root", unix.SYS_CLOSE, v.root)
}
