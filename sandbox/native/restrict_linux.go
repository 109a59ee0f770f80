package native

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/landlock"
	"cloister/sandbox/plan"
	"cloister/sandbox/seccomp"
)

// stdFile is a regular file that was passed in as a standard descriptor, with the
// flags that it was opened with. Pipes and sockets need no rule.
type stdFile struct {
	fd    int
	flags int
	is    bool
}

// landlockVersion asks the kernel for its ABI; 0 where it has no Landlock.
func landlockVersion() int {
	v, err := landlock.Version()
	if err != nil {
		return 0
	}
	return pretendedABI(v)
}

// restrict adds the limits and walls that a process puts around itself, seccomp last.
func (d *Driver) restrict(p *program, of *plan.Plan, s sandbox.Spec, abi int, j *joint) error {
	of.Pending, of.Watched = pending(), j.watched
	for _, one := range of.Walls(s) {
		var err error
		switch step := one.(type) {
		case plan.Limit:
			p.limit(step)
		case plan.Keep:
			p.restrictHosted()
		case plan.Drop:
			if off(layerCapabilities) {
				p.keepPrivileges(d.lent.powers())
			} else {
				p.buildPrivileges()
			}
		case plan.Landlock:
			if !off(layerLandlock) {
				p.buildLandlock(abi, step, j.files)
			}
		case plan.Watch:
			err = p.buildWatch(s.Watched, j)
		case plan.Fileless:
			if !off(layerSeccomp) {
				p.filter("refuse memory as files", seccomp.Fileless())
			}
		case plan.Calls:
			if !off(layerSeccomp) {
				err = d.buildSeccomp(p)
			}
		default: // no wall
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// buildLandlock adds the steps of the second wall around the files.
func (p *program) buildLandlock(abi int, l plan.Landlock, stdio [3]stdFile) {
	attr, size := landlock.Attr(abi)
	ruleset := p.cell()
	p.sys("create Landlock rules", unix.SYS_LANDLOCK_CREATE_RULESET, pointerTo(attr), size, 0).to(ruleset)
	for _, r := range landlock.Lists(abi, l.Writable, l.Permits) {
		rule := landlock.Encode(r.Rights, -1)
		if r.Named != landlock.Present {
			p.permit(ruleset, r, rule)
			continue
		}
		fd := int32At(rule, landlock.FDOffset) // the step before puts it there
		p.sys("open "+r.Path+" for Landlock", unix.SYS_OPENAT, unix.AT_FDCWD, r.Path, unix.O_PATH|unix.O_CLOEXEC, 0).to(fd)
		p.sys("allow "+r.Path, unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, rule, 0)
		p.sys("close "+r.Path, unix.SYS_CLOSE, fd)
	}
	for _, f := range stdio {
		if f.is {
			rule := landlock.Encode(landlock.Opened(abi, f.flags), int32(f.fd))
			p.sys("allow a standard descriptor", unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, rule, 0)
		}
	}
	p.sys("enter Landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)
	p.sys("close Landlock rules", unix.SYS_CLOSE, ruleset)
}

// permit adds a rule for what a statement names, which may be something else or not be there:
// it grants nothing then.
func (p *program) permit(ruleset *int32, r landlock.Rule, rule []byte) {
	fd := int32At(rule, landlock.FDOffset)
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
	if r.NoLinks {
		how.Resolve = unix.RESOLVE_NO_SYMLINKS
	}
	if r.Named == landlock.Dir {
		how.Flags |= unix.O_DIRECTORY
	}
	nothing := []unix.Errno{unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP}
	p.sys("open "+r.Path+" for Landlock", unix.SYS_OPENAT2, unix.AT_FDCWD, r.Path, pointerTo(how),
		unix.SizeofOpenHow).or(nothing...).to(fd)
	if r.Named == landlock.File {
		// A rule about a folder holds for all that is in it.
		p.sys(r.Path+" is a file, as a statement names it", unix.SYS_OPENAT, fd, ".", unix.O_PATH|unix.O_CLOEXEC,
			0).refused(unix.ENOTDIR, unix.EBADF)
	}
	p.sys("allow "+r.Path, unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, rule, 0).or(unix.EBADF)
	p.sys("close "+r.Path, unix.SYS_CLOSE, fd).optional()
}

// lastCap is the highest capability of kernels up to 6.18; the drop of one that
// a kernel does not know is answered with EINVAL.
const lastCap = 63

// buildPrivileges adds the steps that give up every privilege for good.
func (p *program) buildPrivileges() {
	p.sys("leave ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	p.sys("lock securebits", unix.SYS_PRCTL, unix.PR_SET_SECUREBITS, secureBits, 0, 0, 0)
	for c := range highestCap() + 1 {
		p.sys(fmt.Sprintf("drop capability %d from the bounding set", c), unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	none := make([]byte, 24)
	p.sys("drop capabilities", unix.SYS_CAPSET, pointerTo(header), none)
	p.sys("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// secureBits: NOROOT, NO_SETUID_FIXUP, KEEP_CAPS off and NO_CAP_AMBIENT_RAISE,
// each with its lock (securebits.h).
const secureBits = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<5 | 1<<6 | 1<<7

// highestCap is the last capability that this kernel knows.
func highestCap() int {
	for c := range lastCap {
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err != nil {
			return c - 1
		}
	}
	return lastCap
}

// resources are the limits of a plan by their numbers.
var resources = map[string]int{"core": unix.RLIMIT_CORE, "memlock": unix.RLIMIT_MEMLOCK, "rtprio": unix.RLIMIT_RTPRIO,
	"msgqueue": unix.RLIMIT_MSGQUEUE, "nproc": unix.RLIMIT_NPROC, "sigpending": unix.RLIMIT_SIGPENDING}

// limit adds a resource limit, which needs no cgroup. Only one that is wider than ours is narrowed:
// raising one would take a privilege of the host.
func (p *program) limit(l plan.Limit) {
	resource, now := resources[l.Name], unix.Rlimit{}
	if err := unix.Getrlimit(resource, &now); err == nil && now.Max < l.Hard {
		l.Soft, l.Hard = min(l.Soft, now.Max), now.Max
	}
	p.sys("limit "+l.Name, unix.SYS_PRLIMIT64, 0, resource, pointerTo(&unix.Rlimit{Cur: l.Soft, Max: l.Hard}), 0)
}

func (d *Driver) buildSeccomp(p *program) error {
	f, err := d.filter()
	if err != nil {
		return err
	}
	p.filter("enter seccomp", f)
	return nil
}

// filter adds a filter of system calls.
func (p *program) filter(name string, f []unix.SockFilter) {
	prog := &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	p.keep = append(p.keep, f)
	p.sys(name, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, pointerTo(prog))
}

// The size of struct statfs on 64-bit Linux, and where its f_flags lie.
const (
	statfsSize  = 120
	statfsFlags = 80
)

// probeAddr is an address that only the gate's routes make reachable.
var probeAddr = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// buildProbe adds the containment probe: calls whose answers show, in the very
// process that becomes the command, that each wall stands.
func (p *program) buildProbe(s sandbox.Spec) {
	if probed(layerCapabilities) {
		p.probePrivileges()
	}
	p.sys("probe: mounting is refused", unix.SYS_MOUNT, "none", "/tmp", "tmpfs", 0, 0).refused(unix.EPERM)
	if probed(layerSeccomp) {
		p.probeSeccomp()
	}
	if probed(layerLandlock) {
		// Landlock is asked before the capability that making a device needs: EPERM would be
		// the kernel without it. Not 0:0: a whiteout is a regular file to newer kernels
		// (seen with Debian's 6.12.117, not with 6.18.44), and those may be made in /tmp.
		p.sys("probe: Landlock is on", unix.SYS_MKNODAT, unix.AT_FDCWD, "/tmp/.cloister-probe", unix.S_IFCHR,
			unix.Mkdev(1, 3)).refused(unix.EACCES)
	}
	if probed(layerView) {
		p.probeView()
	}
	for _, one := range plan.Probes(s) {
		switch step := one.(type) {
		case plan.Absent:
			if probed(layerView) {
				p.sys("probe: "+step.Path+" is not visible", unix.SYS_FACCESSAT, unix.AT_FDCWD, step.Path,
					unix.F_OK).refused(unix.ENOENT, unix.EACCES, unix.ENOTDIR)
			}
		case plan.Held:
			if probed(layerProtect) {
				p.probeMount(step.Path, step.Fleeting, func(fs []byte) {
					p.look(readOnlyMount, int32At(fs, statfsFlags), "probe: "+step.Path+" is read-only")
				})
			}
		case plan.Overlaid:
			if probed(layerView) {
				p.probeMount(step.Path, false, func(fs []byte) {
					p.look(overlayMount, int32At(fs, 0), "probe: "+step.Path+" is an overlay")
				})
			}
		default: // no probe
		}
	}
	if probed(layerNet) {
		p.probeNet(s)
	}
}

func (p *program) probePrivileges() {
	p.sys("probe: no_new_privs is set", unix.SYS_PRCTL, unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0).want(1)
	header, caps := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, make([]byte, 24)
	p.sys("probe: read capabilities", unix.SYS_CAPGET, pointerTo(header), caps)
	for i := 0; i < len(caps); i += 4 {
		p.look(zero, int32At(caps, i), "probe: capabilities are empty")
	}
	p.sys("probe: bounding set is empty", unix.SYS_PRCTL, unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN, 0, 0, 0).want(0)
}

func (p *program) probeSeccomp() {
	p.sys("probe: seccomp is on", unix.SYS_PRCTL, unix.PR_GET_SECCOMP, 0, 0, 0, 0).want(unix.SECCOMP_MODE_FILTER)
	p.sys("probe: new namespaces are refused", unix.SYS_UNSHARE, unix.CLONE_NEWUSER).refused(unix.EPERM)
	p.sys("probe: io_uring is absent", unix.SYS_IO_URING_SETUP, 1, 0).refused(unix.ENOSYS)
	p.sys("probe: vsock is refused", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0).refused(unix.EAFNOSUPPORT)
	p.sys("probe: packet sockets are refused", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW,
		0).refused(unix.EAFNOSUPPORT)
}

func (p *program) probeView() {
	// The payload owns this root, so that nothing but the mount can refuse; of
	// the host's root it is not the owner.
	p.sys("probe: / is read-only", unix.SYS_FACCESSAT, unix.AT_FDCWD, "/", unix.W_OK).refused(unix.EROFS)
	p.sys("probe: /usr is read-only", unix.SYS_OPENAT, unix.AT_FDCWD, "/usr/.cloister-probe",
		unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600).refused(unix.EROFS, unix.EACCES)
	p.sys("probe: kernel knobs are read-only", unix.SYS_OPENAT, unix.AT_FDCWD, "/proc/sys/kernel/core_pattern",
		unix.O_WRONLY, 0).refused(unix.EROFS, unix.EACCES, unix.ENOENT)
}

// probeMount looks at the mount itself: a link is not followed, and a pipe or socket may
// be written whatever the mount says.
func (p *program) probeMount(path string, fleeting bool, look func(fs []byte)) {
	at, fs := p.cell(), make([]byte, statfsSize)
	var gone, none []unix.Errno
	if fleeting {
		// What is away is not open to anything, and nothing is read of its mount.
		gone, none = []unix.Errno{unix.ENOENT}, []unix.Errno{unix.EBADF}
		*int32At(fs, statfsFlags) = unix.ST_RDONLY
	}
	p.sys("probe: open "+path, unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		0).or(gone...).to(at)
	p.sys("probe: look at "+path, unix.SYS_FSTATFS, at, fs).or(none...)
	look(fs)
	p.sys("probe: close "+path, unix.SYS_CLOSE, at).or(none...)
}

func (p *program) probeNet(s sandbox.Spec) {
	cell := p.cell()
	p.sys("probe: open a socket", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0).to(cell)
	if s.Network {
		// Where every address is local, any can be bound to.
		p.sys("probe: every address is the gate's", unix.SYS_BIND, cell, sockaddr4(probeAddr, 0), 16)
	} else {
		p.sys("probe: there is no way out", unix.SYS_CONNECT, cell, sockaddr4(probeAddr, 9), 16).refused(unix.ENETUNREACH,
			unix.EHOSTUNREACH)
	}
	p.sys("probe: close the socket", unix.SYS_CLOSE, cell)
}
