package localuser

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cloister/internal/cgroup"
	"cloister/internal/peercred"
	"cloister/sandbox"
	"cloister/sandbox/apart"
	"cloister/sandbox/native"
)

// mostLine bounds a line of a caller.
const mostLine = 16 << 20

// owner is root's process for one box of one caller.
type owner struct {
	uid, gid int // the caller's
	release  string
	ids      ids
	peer     *peer
}

// Main is root's process for one box: args are who the helper saw at the other end of the
// connection, which is its fourth descriptor, and the ids that payloads may have.
func Main(ctx context.Context, args []string, release string) int {
	err := func() error {
		if len(args) != 4 {
			return errors.New("it is for the helper alone")
		}
		o := owner{release: release, ids: ids{locks: args[3]}}
		var bad [3]error
		o.uid, bad[0] = strconv.Atoi(args[0])
		o.ids.first, bad[1] = strconv.Atoi(args[1])
		o.ids.count, bad[2] = strconv.Atoi(args[2])
		if err := errors.Join(bad[:]...); err != nil {
			return err
		}
		f := os.NewFile(3, "caller")
		c, err := net.FileConn(f)
		_ = f.Close() // the connection has a descriptor of its own
		if err != nil {
			return err
		}
		own, ok := c.(*net.UnixConn)
		if !ok {
			return errors.New("the caller is at no socket of this machine")
		}
		if _, err := peercred.Require(own, o.uid); err != nil {
			return err
		}
		return o.serve(ctx, own)
	}()
	if err != nil {
		fmt.Fprintf(os.Stderr, "cloister local-user: %v\n", err)
		return 1
	}
	return 0
}

func (o *owner) serve(ctx context.Context, c *net.UnixConn) error {
	lent := &native.Lent{Caller: o.uid}
	driver := native.NewLent("local-"+strconv.Itoa(o.uid), lent)  // it begins to work beside what follows
	late := time.AfterFunc(orderWithin, func() { _ = c.Close() }) // ends the wait for the order
	return apart.Own(ctx, c, mostLine, func(order *apart.Order, files []*os.File, terminal func(*os.File) error,
	) (sandbox.Driver, error) {
		if !late.Stop() {
			return nil, errors.New("the order came too late")
		}
		var err error
		if o.peer, err = peerOf(c); err != nil {
			return nil, err
		}
		defer o.peer.close()
		lent.Terminal = terminal
		return driver, o.judge(order, files, lent)
	})
}

// judge looks at what a caller wants, and who it is built for.
func (o *owner) judge(order *apart.Order, files []*os.File, lent *native.Lent) error {
	if order.Release != o.release {
		return lacking(fmt.Sprintf("root's helper is of release %s, this is %q", o.release, order.Release),
			"sudo cloister setup local-user")
	}
	gid, err := o.peer.confirm()
	if err != nil {
		return err
	}
	o.gid = gid
	if order.Hold {
		_, _, _, err := o.join(order.Handle)
		return err
	}
	if err := check(order.Spec); err != nil {
		return err
	}
	if err := o.peer.follow(); err != nil {
		return err
	}
	if order.Handle != "" {
		lent.User, lent.Group, lent.Joined, err = o.join(order.Handle)
	} else {
		err = o.borrow(lent, order.Spec, files)
	}
	order.Spec.User.ID = lent.User
	return err
}

// borrow takes what the caller shows, and finds out who the payload can be.
func (o *owner) borrow(l *native.Lent, s sandbox.Spec, files []*os.File) error {
	places := native.Places(s)
	if len(files) != len(places) {
		return fmt.Errorf("start user: %d descriptors for %d places", len(files), len(places))
	}
	owned := make([]bool, len(files))
	for i, f := range files {
		var err error
		if owned[i], err = o.look(f, places[i]); err != nil {
			return err
		}
	}
	space, err := o.account(l)
	if err != nil {
		return err
	}
	if space != nil {
		defer space.Close()
		if l.Mounts, err = clone(files, places, owned, space); err == nil {
			l.Mapped = true
			return nil
		}
		if !errors.Is(err, errNoMap) {
			return err
		}
	}
	// No mount can be mapped here, or not all of these: as natively, it is the caller, whose
	// files the payload's are then anyway.
	if slices.ContainsFunc(s.Binds, func(b sandbox.Bind) bool { return b.Overlay }) {
		return &sandbox.Unsupported{Guarantee: "overlay workspace",
			Reason: "start user: not even root gets a user namespace here, or a file system has no id-mapped mounts",
			Fix:    "run with --workspace live"}
	}
	l.User, l.Group = o.uid, o.gid
	l.Mounts, err = clone(files, places, owned, nil)
	return err
}

// account finds an id for the payload, and how the caller's files become its own. Without
// either it is nil.
func (o *owner) account(l *native.Lent) (*os.File, error) {
	id, err := o.ids.take()
	if err != nil || id == 0 {
		return nil, err
	}
	space, err := native.OwnerSpace(o.uid, o.gid, id)
	if err != nil {
		return nil, nil // not even root gets a user namespace here: max_user_namespaces is 0
	}
	l.User, l.Group = id, id
	return space, nil
}

// look reports whether a descriptor is the caller's own, and refuses what may not be shown.
func (o *owner) look(f *os.File, b sandbox.Bind) (owned bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, fmt.Errorf("start user: look at %s: %w", b.Source, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR, unix.S_IFREG, unix.S_IFSOCK, unix.S_IFIFO:
	default:
		return false, fmt.Errorf("start user: %s is no folder and no file", b.Source)
	}
	owned = int(st.Uid) == o.uid
	if (b.Access == sandbox.ReadWrite || b.Overlay) && !owned {
		return false, &sandbox.Unsupported{Guarantee: "file ownership",
			Reason: fmt.Sprintf("start user: %s belongs to uid %d, and what is written must be the caller's, uid %d", b.Source,
				st.Uid, o.uid),
			Fix: "give the folder to the account that starts the cloister, or use --isolation docker"}
	}
	return owned, nil
}

// errNoMap says that a file system has no id-mapped mounts.
var errNoMap = errors.New("no id-mapped mount")

// clone takes detached copies of mounts. The caller's own files are the payload's in them,
// where space says how; everyone else's stay theirs. No copy is wider than its mount.
func clone(files []*os.File, places []sandbox.Bind, owned []bool, space *os.File) (out []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range out {
				f.Close()
			}
		}
	}()
	for i, f := range files {
		source := places[i].Source
		fd, err := unix.OpenTree(int(f.Fd()), "",
			unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
		if errors.Is(err, unix.EINVAL) {
			return out, lacking(fmt.Sprintf("%s lies on a mount that root's helper does not see, as in a container", source),
				"run cloister where the helper runs")
		}
		if err != nil {
			return out, fmt.Errorf("start user: clone mount of %s: %w", source, err)
		}
		out = append(out, os.NewFile(uintptr(fd), string(source)))
		attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
		if places[i].Access == sandbox.ReadOnly {
			attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
		}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
			return out, fmt.Errorf("start user: restrict mount of %s: %w", source, err)
		}
		if space == nil || !owned[i] {
			continue
		}
		attr = &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(space.Fd())}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
			return out, fmt.Errorf("start user: map the owner of %s: %w: %w", source, errNoMap, err)
		}
	}
	return out, nil
}

// peer is the caller's process, held so that its number cannot become another's meanwhile.
type peer struct{ pid, pidfd int }

// peerOf is the process that connected.
func peerOf(c *net.UnixConn) (*peer, error) {
	cred, err := peercred.Of(c)
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &peer{pid: cred.PID}
	var asked error
	err = raw.Control(func(fd uintptr) { p.pidfd, asked = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, soPeerPIDFD) })
	if err = errors.Join(err, asked); err != nil {
		return nil, lacking(fmt.Sprintf("the kernel does not hold the caller's process: %v", err), "use Linux 6.5 or newer")
	}
	return p, nil
}

// soPeerPIDFD is SO_PEERPIDFD (asm-generic/socket.h), since Linux 6.5.
const soPeerPIDFD = 77

func (p *peer) close() { unix.Close(p.pidfd) }

// there reports whether what was read about the process was about it.
func (p *peer) there() error {
	if err := unix.PidfdSendSignal(p.pidfd, 0, nil, 0); err != nil {
		return fmt.Errorf("start user: the caller is gone: %w", err)
	}
	return nil
}

// confirm gives the caller's group. It refuses one that gave up gaining rights: root's help
// would be such a gain, and lead out of whatever encloses it, as a program with set-id bits
// would have.
func (p *peer) confirm() (gid int, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
	if err != nil {
		return 0, fmt.Errorf("start user: look at the caller: %w", err)
	}
	if err := p.there(); err != nil {
		return 0, err
	}
	if field(text, "NoNewPrivs") != "0" {
		return 0, lacking("the caller may gain no rights (no_new_privs), and is enclosed already",
			"run cloister outside of it")
	}
	return strconv.Atoi(field(text, "Gid"))
}

// follow puts this process, and with it the box, under the caller's control groups and
// resource limits.
func (p *peer) follow() error {
	if err := cgroup.Enter(p.pid); err != nil {
		return fmt.Errorf("start user: %w", err)
	}
	if err := p.limits(); err != nil {
		return err
	}
	return p.there()
}

// limitNames are the resources as /proc tells of them (proc(5)).
var limitNames = map[string]int{
	"Max cpu time": unix.RLIMIT_CPU, "Max file size": unix.RLIMIT_FSIZE, "Max data size": unix.RLIMIT_DATA,
	"Max stack size": unix.RLIMIT_STACK, "Max core file size": unix.RLIMIT_CORE, "Max resident set": unix.RLIMIT_RSS,
	"Max processes": unix.RLIMIT_NPROC, "Max open files": unix.RLIMIT_NOFILE, "Max locked memory": unix.RLIMIT_MEMLOCK,
	"Max address space": unix.RLIMIT_AS, "Max file locks": unix.RLIMIT_LOCKS,
	"Max pending signals": unix.RLIMIT_SIGPENDING, "Max msgqueue size": unix.RLIMIT_MSGQUEUE,
	"Max nice priority": unix.RLIMIT_NICE, "Max realtime priority": unix.RLIMIT_RTPRIO,
	"Max realtime timeout": unix.RLIMIT_RTTIME,
}

// limits takes those of the caller's resource limits that are narrower than this process's.
func (p *peer) limits() error {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/limits")
	if err != nil {
		return fmt.Errorf("start user: look at the caller's limits: %w", err)
	}
	left := maps.Clone(limitNames)
	for line := range strings.Lines(string(text)) {
		if len(line) < limitsColumn {
			continue
		}
		name, numbers := strings.TrimSpace(line[:limitsColumn]), strings.Fields(line[limitsColumn:])
		r, known := left[name]
		if !known || len(numbers) < 2 {
			continue
		}
		delete(left, name)
		var lim unix.Rlimit
		if err := unix.Getrlimit(r, &lim); err != nil {
			return fmt.Errorf("start user: take the caller's limits: %w", err)
		}
		lim.Cur, lim.Max = min(lim.Cur, limit(numbers[0])), min(lim.Max, limit(numbers[1]))
		if err := unix.Setrlimit(r, &lim); err != nil {
			return fmt.Errorf("start user: take the caller's limits: %w", err)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("start user: the kernel does not tell %d of the caller's limits", len(left))
	}
	return nil
}

// limitsColumn is where the numbers begin in /proc's table of limits.
const limitsColumn = 26

// limit is a number of that table.
func limit(text string) uint64 {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	return unix.RLIM_INFINITY
}
