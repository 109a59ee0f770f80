package native

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cloister/sandbox"
	"cloister/sandbox/gate"

	"golang.org/x/sys/unix"
)

// systemFolders are shown read-only as they are: what a distribution installs
// for everybody. A symbolic link among them (merged /usr) stays a link.
var systemFolders = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"}

// devices are the nodes under /dev that a program may rely on.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

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

// bootID is a random UUID (RFC 9562) as the kernel writes it.
func bootID() []byte {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // it cannot fail (crypto/rand)
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

func (v *view) dev() {
	v.folder("/dev", 0o755)
	for _, name := range devices {
		v.device("/dev/" + name)
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

// device shows one of the host's devices.
func (v *view) device(at string) {
	v.file(at, nil, 0o666)
	fd := v.p.cell()
	v.p.sys("clone "+at, unix.SYS_OPEN_TREE, unix.AT_FDCWD, at, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).to(fd)
	v.restrict(at, fd, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	v.attach(fd, at)
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
