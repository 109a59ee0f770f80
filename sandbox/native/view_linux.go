package native

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/gate"
)

// systemFolders are shown read-only as they are: what a distribution installs
// for everybody. A symbolic link among them (merged /usr) stays a link.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"}

// devices are the nodes under /dev that a program may rely on.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

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
		v.stage = p.beginStage(h, mounts)
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

func (v *view) system() error {
	if v.image != "" {
		v.folder("/usr", 0o755) // the probe tries it
		v.cpus()
		return nil
	}
	for _, dir := range systemFolders {
		fi, err := os.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("look at %s: %w", dir, err)
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(dir)
			if err != nil {
				return fmt.Errorf("look at %s: %w", dir, err)
			}
			v.link(dir, to)
		case fi.IsDir():
			v.bind(sandbox.Bind{Source: sandbox.HostPath(dir), Target: sandbox.GuestPath(dir), System: true})
		}
	}
	v.cpus()
	return nil
}

// cpus shows the list of processors, which runtimes size their pools by.
func (v *view) cpus() {
	const cpus = "/sys/devices/system/cpu"
	if _, err := os.Stat(cpus); err == nil {
		v.bind(sandbox.Bind{Source: cpus, Target: cpus, System: true})
	}
}

// counts bounds what the kernel counts for a person and all that they own together:
// no user namespace more, and of inotify half of what the host has for each cloister,
// so that editors and watchers outside go on when one takes all of its half; two that
// do may leave none.
func (v *view) counts(namespaces string) {
	if v.lent != nil {
		return // they would be the host's own knobs
	}
	v.count("max_user_namespaces", namespaces)
	for _, name := range []string{"instances", "watches"} {
		text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_" + name)
		if err != nil {
			continue // a kernel without inotify
		}
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			v.count("max_inotify_"+name, strconv.Itoa((n+1)/2)+"\n")
		}
	}
}

func (v *view) count(name, value string) {
	p, limit := v.p, v.p.cell()
	p.sys("open "+name, unix.SYS_OPENAT, v.root, "proc/sys/user/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0).to(limit)
	p.sys("bound "+name, unix.SYS_WRITE, limit, []byte(value), len(value)).want(int64(len(value)))
	p.sys("close "+name, unix.SYS_CLOSE, limit)
}

// proc mounts a new /proc, closes the door to further user namespaces through
// it, and then makes its knobs read-only.
func (v *view) proc() {
	v.freshProc("0\n")
	for _, name := range readOnlyProc {
		v.cover("/proc/"+name, true)
	}
	v.folder("/dev", 0o755)
	for _, name := range maskedFiles {
		// What only root may read is closed to the payload, who never is root.
		if fi, err := os.Lstat("/proc/" + name); err == nil && fi.Mode()&0o006 != 0 {
			v.null("/proc/" + name)
		}
	}
	// The first process shares the shim's memory, which is hidden whole but for
	// its command line: the host's paths and flags. It is one thread, and stays one.
	v.null("/proc/1/cmdline")
	v.null("/proc/1/task/1/cmdline")
	for _, name := range maskedFolders {
		if fi, err := os.Lstat("/proc/" + name); err == nil && fi.IsDir() {
			v.empty("/proc/" + name)
		}
	}
	// The kernel's names this machine until it starts anew, in every cloister alike.
	v.file(boot, bootID(), 0o444)
	v.hideBehind(boot, sandbox.Protect{Target: "/proc/sys/kernel/random/boot_id"})
}

// freshProc mounts a new /proc, by which at most so many user namespaces more are had.
func (v *view) freshProc(namespaces string) {
	p, fd, mnt := v.p, v.p.cell(), v.p.cell()
	v.folder("/proc", 0o555)
	p.sys("open proc", unix.SYS_FSOPEN, "proc", unix.FSOPEN_CLOEXEC).to(fd)
	p.sys("create proc", unix.SYS_FSCONFIG, fd, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	p.sys("mount proc", unix.SYS_FSMOUNT, fd, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC).to(mnt)
	p.sys("close proc", unix.SYS_CLOSE, fd)
	v.attach(mnt, "/proc")
	v.counts(namespaces)
}

// cover mounts a guest path on itself, read-only or pinned writable. A
// symbolic link is held like a file: it can be neither removed nor replaced.
func (v *view) cover(guest string, readOnly bool) {
	at, fd := v.at(guest), v.p.cell()
	v.p.sys("clone "+guest, unix.SYS_OPEN_TREE, at, "",
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH).to(fd)
	if readOnly {
		v.restrict(guest, fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
	v.attachAt(fd, at, guest)
	v.p.sys("close "+guest, unix.SYS_CLOSE, at)
}

// null hides a file of /proc behind /dev/null.
func (v *view) null(guest string) {
	fd := v.p.cell()
	v.p.sys("clone /dev/null", unix.SYS_OPEN_TREE, unix.AT_FDCWD, "/dev/null",
		unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).to(fd)
	v.restrict(guest, fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID)
	v.attach(fd, guest)
}

// blankFile hides a file behind an empty, read-only one. /dev/null would swallow
// what is written to it, and is no file to programs that ask first.
func (v *view) blankFile(t sandbox.Protect) {
	if !v.made[blank] {
		v.made[blank] = true
		v.file(blank, nil, 0o444)
	}
	v.hideBehind(blank, t)
}

// hideBehind shows something of the read-only root in the place of a path.
func (v *view) hideBehind(what string, t sandbox.Protect) {
	guest, fd := string(t.Target), v.p.cell()
	v.p.sys("clone "+what, unix.SYS_OPEN_TREE, v.root, rel(what), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).to(fd)
	v.restrict(guest, fd, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	if t.Fleeting {
		v.attachIfThere(fd, guest)
		return
	}
	v.attach(fd, guest)
}

// bootID is a random UUID (RFC 9562) as the kernel writes it.
func bootID() []byte {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // it cannot fail (crypto/rand)
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

// nothing is a folder and blank a file of the read-only root that stay empty.
const (
	nothing = "/run/.nothing"
	blank   = "/run/.blank"
	boot    = "/run/.boot_id" // what the cloister has for the kernel's
)

// empty hides a folder behind an empty, read-only one.
func (v *view) empty(guest string) {
	v.folder(nothing, 0o555)
	v.hideBehind(nothing, sandbox.Protect{Target: sandbox.GuestPath(guest)})
}

func (v *view) dev() {
	v.folder("/dev", 0o755)
	for _, name := range devices {
		guest := "/dev/" + name
		v.file(guest, nil, 0o666)
		fd := v.p.cell()
		v.p.sys("clone "+guest, unix.SYS_OPEN_TREE, unix.AT_FDCWD, guest, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).to(fd)
		v.restrict(guest, fd, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		v.attach(fd, guest)
	}
	p, fs, mnt := v.p, v.p.cell(), v.p.cell()
	v.folder("/dev/pts", 0o755)
	p.sys("open devpts", unix.SYS_FSOPEN, "devpts", unix.FSOPEN_CLOEXEC).to(fs)
	for _, o := range []string{"newinstance", "ptmxmode=0666", "mode=0620", "max=" + strconv.Itoa(sandbox.MaxTerminals)} {
		key, value, has := strings.Cut(o, "=")
		if has {
			p.sys("set devpts "+o, unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_STRING, key, value, 0)
		} else {
			p.sys("set devpts "+o, unix.SYS_FSCONFIG, fs, unix.FSCONFIG_SET_FLAG, key, 0, 0)
		}
	}
	p.sys("create devpts", unix.SYS_FSCONFIG, fs, unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	p.sys("mount devpts", unix.SYS_FSMOUNT, fs, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC).to(mnt)
	p.sys("close devpts", unix.SYS_CLOSE, fs)
	v.attach(mnt, "/dev/pts")
	v.link("/dev/ptmx", "pts/ptmx")
	v.link("/dev/fd", "/proc/self/fd")
	v.link("/dev/stdin", "/proc/self/fd/0")
	v.link("/dev/stdout", "/proc/self/fd/1")
	v.link("/dev/stderr", "/proc/self/fd/2")
	// One memory file system, with one bound, serves for both.
	v.link("/dev/shm", "../tmp")
}

// etc makes the parts of /etc that are the same in every cloister: copies of
// small files, binds of folders, and how names are looked up.
func (v *view) etc() {
	v.folder("/etc", 0o755)
	if v.image == "" {
		v.hostEtc()
	}
	if _, err := os.Lstat(v.image + sandbox.Chromium); err == nil {
		v.compose(sandbox.ChromiumFlags)
	}
	v.file("/etc/nsswitch.conf", []byte("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: "+
		"files\nprotocols: files\nservices: files\n"), 0o644)
	v.file("/etc/resolv.conf", []byte("# The guardian answers. No question leaves this cloister.\nnameserver "+gate.Addr4+
		"\noptions edns0 timeout:3 attempts:2\n"), 0o644)
	v.file("/etc/host.conf", []byte("multi on\n"), 0o644)
}

// hostEtc is what a cloister on the host's own system has of its /etc.
func (v *view) hostEtc() {
	for _, dir := range sandbox.EtcFolders() {
		if fi, err := os.Lstat(dir); err == nil && fi.IsDir() {
			v.bind(sandbox.Bind{Source: sandbox.HostPath(dir), Target: sandbox.GuestPath(dir), System: true})
		}
	}
	for _, name := range sandbox.EtcFiles {
		file := "/etc/" + name
		fi, err := os.Stat(file)
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		if to, err := os.Readlink(file); err == nil && strings.HasPrefix(filepath.Join("/etc", to), "/usr/") ||
			strings.HasPrefix(to, "/usr/") {
			v.link(file, to)
			continue
		}
		if fi.Size() > maxCopied {
			v.bind(sandbox.Bind{Source: sandbox.HostPath(file), Target: sandbox.GuestPath(file), File: true, System: true})
			continue
		}
		v.copied(file)
	}
	v.folder("/etc/pki/tls/certs", 0o755)
	v.link("/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/certs/ca-certificates.crt")
	v.link("/etc/ssl/cert.pem", "certs/ca-certificates.crt")
	if fi, err := os.Stat("/etc/ssl/openssl.cnf"); err == nil && fi.Mode().IsRegular() {
		v.copied("/etc/ssl/openssl.cnf")
	}
}

// names makes the files of /etc that tell who and where the payload is. The
// first entry of an id counts, so the payload's stands before the image's.
func (v *view) names(s sandbox.Spec) error {
	id, u := strconv.Itoa(s.User.ID), s.User
	passwd, err := v.imageText("/etc/passwd",
		"root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n")
	if err != nil {
		return err
	}
	group, err := v.imageText("/etc/group", "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n")
	if err != nil {
		return err
	}
	v.file("/etc/passwd", []byte(u.Name+":x:"+id+":"+id+"::"+string(u.Home)+":/bin/sh\n"+passwd), 0o644)
	v.file("/etc/group", []byte(u.Name+":x:"+id+":\n"+group), 0o644)
	v.file("/etc/hostname", []byte(Hostname(s)+"\n"), 0o644)
	v.file("/etc/hosts", gate.Hosts(Hostname(s), s.Peers), 0o644)
	return nil
}

// Hostname is the cloister's name as a host's: letters, digits, hyphens.
func Hostname(s sandbox.Spec) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '-'
	}, s.Name)
	clean = strings.Trim(clean, "-")
	if len(clean) > 63 {
		clean = strings.Trim(clean[:63], "-")
	}
	if clean == "" {
		return "cloister"
	}
	return clean
}

// protect lays read-only mounts over the writable ones, ancestors first, so
// that each later clone of a path is taken from what lies there already.
func (v *view) protect(list []sandbox.Protect) {
	for _, t := range list {
		guest := string(t.Target)
		switch {
		case t.Instead != "":
			v.hideBehind(string(t.Instead), t)
		case t.Empty && t.File:
			v.blankFile(t)
		case t.Empty:
			v.empty(guest)
		default:
			v.cover(guest, !t.Pin)
		}
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
