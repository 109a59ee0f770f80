package native

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/plan"
)

// view is the hand of a plan: it adds the steps that build the mount view and enter it.
type view struct {
	p      *program
	plan   *plan.Plan
	root   *int32
	made   map[string]bool  // folders of the tmpfs root
	under  []string         // guest folders that are binds: nothing is made below them
	mounts map[place]*int32 // those that the parent passed, as root
	image  string           // host folder of the root file system; empty: the host's own system
	owned  []string         // folders that stand where the image has something else
	bad    error            // what is wrong with the image
	hosted *Hosted          // a kernel that shows the view, or nil
	stage  *stage           // what the view is a folder of, if a hosted kernel shows it
	lent   *Lent            // the user that root builds it for: the user namespace is the host's
	once   bool             // what the parent passed is for one bind, and is let go of with it
}

// beginView makes the part of the view that every cloister has.
func (p *program) beginView(image sandbox.Root, mounts map[place]*int32, h *Hosted, l *Lent) (*view, error) {
	v := &view{p: p, root: p.cell(), made: map[string]bool{"/": true}, image: string(image.Dir), mounts: mounts,
		hosted: h, lent: l}
	if off(layerView) {
		v.plan = plan.New(plan.Facts{Hosted: h.planned()})
		return v, nil
	}
	f, err := v.facts()
	if err != nil {
		return nil, err
	}
	v.plan = plan.New(f)
	p.sys("make mounts private", unix.SYS_MOUNT, "", "/", 0, unix.MS_REC|unix.MS_PRIVATE, 0)
	v.once = true
	v.do(v.plan.Ground())
	v.once = false
	return v, v.bad
}

// finish adds what the Spec shows, protects it, and makes the view all there is.
func (v *view) finish(s sandbox.Spec) (err error) {
	if v.plan.Passwd, err = v.imageText("/etc/passwd"); err != nil {
		return err
	}
	if v.plan.Groups, err = v.imageText("/etc/group"); err != nil {
		return err
	}
	if off(layerProtect) {
		s.Protect = nil
	}
	v.do(v.plan.Rest(s))
	return v.bad
}

// do writes the steps of a view down.
func (v *view) do(steps []plan.Step) {
	for _, one := range steps {
		switch s := one.(type) {
		case plan.Root:
			v.begin()
		case plan.Folder:
			if s.Instead {
				v.unlink(s.Path)
			}
			v.folder(s.Path, s.Mode)
		case plan.File:
			v.compose(s.File)
		case plan.Link:
			v.link(string(s.Path), s.Target)
		case plan.Bind:
			v.bind(s.Bind)
		case plan.Device:
			v.device("/dev/" + s.Name)
		case plan.Proc:
			v.proc(s.Bounds)
		case plan.Terminals:
			v.terminals(s.Most)
		case plan.Memory:
			v.mountTmpfs(s.Path, "size=25%", "mode=1777", "nr_inodes=1m")
		case plan.Same:
			v.again(s.As, s.Path)
		case plan.Null:
			v.null(s.Path)
		case plan.Cover:
			v.cover(s.Protect)
		case plan.Seal:
			v.enter()
		case plan.Limit, plan.Drop, plan.Keep, plan.Landlock, plan.Watch, plan.Fileless, plan.Calls, plan.Absent,
			plan.Held, plan.Overlaid: // no part of a view
		}
	}
}

// begin makes the root. It lies on top of the old one: the old stays reachable by
// absolute paths, the new by its descriptor. A hosted kernel's is a folder of its stage.
func (v *view) begin() {
	v.base()
	switch {
	case v.hosted != nil:
		v.stage = v.p.beginStage(v)
		v.stage.hold(v.root)
	default:
		v.p.sys("attach root", unix.SYS_MOVE_MOUNT, v.root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
}

// unlink makes way for a folder where a link was made.
func (v *view) unlink(guest string) {
	if dir := path.Dir(guest); v.real(dir, true) == dir {
		v.p.sys("remove the link at "+guest, unix.SYS_UNLINKAT, v.root, rel(guest), 0)
	} else {
		v.own(guest) // the link lies where the image's folder leads
	}
	delete(v.made, guest) // it was the link
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

func (v *view) file(guest string, mode uint32) {
	v.compose(sandbox.File{Path: sandbox.GuestPath(guest), Mode: mode})
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
			v.file(target, 0o644)
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
	if passed := v.mounts[placeOf(b)]; passed != nil && v.once {
		v.p.sys("close the mount of "+string(b.Source), unix.SYS_CLOSE, passed)
	}
}

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
