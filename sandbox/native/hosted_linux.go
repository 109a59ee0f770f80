package native

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/plan"
)

// Hosted is a kernel of its own that runs a box's command: a program that stands
// outside the view. Everything around it is as for a command of the host's kernel:
// namespaces, view, gate, protected paths, limits, terminal. It keeps the capabilities
// of the box's own user namespace, with which it makes namespaces for its parts, and
// Landlock and seccomp are its own matter.
type Hosted struct {
	// Program is a file of the host, executed as ProgramPath.
	Program sandbox.HostPath
	// Command gives its words and environment, once the numbers of Pass are known.
	Command func(pass []int) (argv, env []string)
	// Files are made beside it, outside the view.
	Files []sandbox.File
	// Shown are files of the host that every cloister of this kernel shows.
	Shown []sandbox.Bind
	// Beside are files of the host that it reads itself, outside the view.
	Beside []sandbox.Bind
	// System has it find the host's own system folders beside it, read-only.
	System bool
	// Devices are names under /dev that it uses.
	Devices []string
	// Pass are descriptors that it gets.
	Pass []*os.File
	// Outlives says of one that joins that it ends by itself, some time after who began it, and is not killed before:
	// it has held the box still, and lets it go on.
	Outlives bool
}

// Where a hosted kernel finds things: its program, the view, and a folder of its own
// that it may write to.
const (
	ProgramPath = "/kernel"
	ViewPath    = plan.ViewPath
	StatePath   = plan.StatePath
)

// StartHosted is Start for a Spec whose command a hosted kernel runs.
func (d *Driver) StartHosted(ctx context.Context, s sandbox.Spec, w sandbox.Wiring, h Hosted) (sandbox.Box, error) {
	if s.Peers != nil {
		return nil, &sandbox.Unsupported{Guarantee: "cloisters beside each other",
			Reason: "start " + s.Name + ": a kernel of its own has a network of its own, and no way to others",
			Fix:    "use --isolation docker or native"}
	}
	g := sandbox.Ground{User: s.User.ID, Root: s.Root, Network: s.Network,
		Stdin: w.Stdin, Stdout: w.Stdout, Stderr: w.Stderr}
	return d.begin(g, &h).Start(ctx, s, w)
}

// ExecHosted is Exec for a program that asks the hosted kernel of a box for one more
// command.
func (d *Driver) ExecHosted(b sandbox.Handle, s sandbox.Spec, w sandbox.Wiring, h Hosted) (sandbox.Box, error) {
	return d.exec(b, s, w, &h)
}

// stage is the root of a hosted kernel, of which the view is a folder.
type stage struct {
	*view
	place *int32 // the folder of the view
}

// beginStage makes the root that a view lies in, with what a program expects of one.
func (p *program) beginStage(of *view) *stage {
	s := &stage{view: &view{p: p, root: p.cell(), made: map[string]bool{"/": true}, mounts: of.mounts, once: true},
		place: p.cell()}
	s.do(of.plan.Stage())
	return s
}

// hostedNamespaces is how many user namespaces a hosted kernel may make: one for each of
// its parts, and again for the commands that join.
const hostedNamespaces = 64

// hold attaches the view's root to its folder of the stage.
func (s *stage) hold(root *int32) {
	p := s.p
	p.sys("open the place of the view", unix.SYS_OPENAT, s.root, rel(ViewPath), unix.O_PATH|unix.O_CLOEXEC, 0).to(s.place)
	p.sys("attach the view", unix.SYS_MOVE_MOUNT, root, "", s.place, "",
		unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	p.sys("close the place of the view", unix.SYS_CLOSE, s.place)
}

// share lets what is mounted on the view later be seen by the kernel's parts, which have
// mount namespaces of their own: a protected path that is covered again.
func (s *stage) share() {
	s.p.sys("share mounts with the kernel", unix.SYS_MOUNT, "", "/", 0, unix.MS_REC|unix.MS_SHARED, 0)
}

// restrictHosted keeps what the kernel needs to build its parts, in the box's own user
// namespace, and nothing that an execution could add.
func (p *program) restrictHosted() {
	p.keepPrivileges(^uint64(0))
	p.sys("set no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// keepPrivileges hands every capability of the cloister's user namespace to the
// command, of those that are listed: without the ambient set an ordinary user's command has
// none anyway.
func (p *program) keepPrivileges(listed uint64) {
	last := highestCap()
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	all := (uint64(1)<<(last+1) - 1) & listed
	sets := make([]byte, 24)
	for half := range 2 {
		for set := range 3 {
			*int32At(sets, 12*half+4*set) = int32(uint32(all >> (32 * half)))
		}
	}
	p.sys("keep capabilities", unix.SYS_CAPSET, pointerTo(header), sets)
	for c := range last + 1 {
		if all>>c&1 == 0 {
			continue
		}
		p.sys("hand on a capability", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0)
	}
}

// runHosted adds the steps of the process that becomes the hosted kernel.
func (p *program) runHosted(s sandbox.Spec, j *joint, h *Hosted) {
	p.sys("go to /", unix.SYS_CHDIR, "/")
	if probed(layerNet) {
		p.probeNet(s)
	}
	p.sys("tell that the command is there", unix.SYS_WRITE, j.ctlC, []byte{1}, 1).optional()
	p.await("wait for the guardian", j)
	p.sys("close descriptors at execution", unix.SYS_CLOSE_RANGE, 3, uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC)
	for i, fd := range j.pass {
		p.sys("pass descriptor "+strconv.Itoa(i)+" on", unix.SYS_FCNTL, fd, unix.F_SETFD, 0)
	}
	p.sys("let signals in", unix.SYS_RT_SIGPROCMASK, 2, make([]byte, 8), 0, 8)
	argv, env := h.Command(j.pass)
	o := p.sys("execute the kernel", unix.SYS_EXECVE, ProgramPath, p.words(argv), p.words(env))
	o.kind = execute
}

// takeAlong duplicates descriptors for the child.
func (j *joint) takeAlong(h *Hosted) error {
	if h == nil {
		return nil
	}
	for _, f := range h.Pass {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 10)
		if err != nil {
			return fmt.Errorf("start native: pass a descriptor on: %w", err)
		}
		j.pass = append(j.pass, fd)
	}
	return nil
}

func (h *Hosted) outlives() bool { return h != nil && h.Outlives }

// program is the kernel's own file, as it is bound.
func (h *Hosted) program() sandbox.Bind {
	return sandbox.Bind{Source: h.Program, Target: ProgramPath, File: true}
}

// binds are the host's files that a hosted kernel needs. Root's are its own to reach: they
// may lie in folders that the payload's user cannot enter.
func (h *Hosted) binds() []sandbox.Bind {
	if h == nil {
		return nil
	}
	return slices.Concat([]sandbox.Bind{h.program()}, h.Shown, h.Beside)
}

// planned is what a plan knows of a hosted kernel.
func (h *Hosted) planned() *plan.Hosted {
	if h == nil {
		return nil
	}
	return &plan.Hosted{Program: h.program(), Files: h.Files, Shown: h.Shown, Beside: h.Beside, Devices: h.Devices,
		System: h.System}
}

// viewPath is where a guest path lies for the first process.
func (b *box) viewPath(guest sandbox.GuestPath) string {
	if !b.hosted {
		return string(guest)
	}
	return path.Join(ViewPath, string(guest))
}
