package native

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// Lent is a user that root builds boxes for, each in namespaces that root makes: the
// payload needs no user namespace, which this host may give to root alone. Everything
// else is as for a user's own box. The builder has the payload's user from its first step
// on, and of root's power only what building takes.
type Lent struct {
	// User and Group are the payload's ids, outside as inside. A Spec's User has the same.
	User, Group int
	// Caller is the user that root builds for: no control group of the box's leads out of its own.
	Caller int
	// Joined looks, once a box is opened that a command joins, whether it is still the one
	// that the caller may enter: a number can become another's.
	Joined func() error
	// Mounts are detached mounts of what Places lists, in its order. Nothing else that a
	// Spec names is opened by its path on the host.
	Mounts []*os.File
	// Mapped says that the mounts of the user's own files are mapped to the payload's ids:
	// no power over files reaches anyone else's on them. Overlays need it.
	Mapped bool
	// Terminal takes the outer end of a terminal inside, if the command has one.
	Terminal func(master *os.File) error
}

// within is the user that root builds for, and 0 where it builds for itself.
func (l *Lent) within() int {
	if l == nil {
		return 0
	}
	return l.Caller
}

// joined asks whether the box that was opened is the one that was meant.
func (l *Lent) joined() error {
	if l == nil {
		return nil
	}
	return l.Joined()
}

// NewLent gives the driver of an instance that builds for a user, who may be named until it
// starts a box. It is for root.
func NewLent(instance string, l *Lent) *Driver {
	d := New(instance)
	d.lent = l
	return d
}

// Places are what a Spec shows of the host, and where its overlays keep what is written.
func Places(s sandbox.Spec) []sandbox.Bind {
	var out []sandbox.Bind
	seen := map[place]bool{}
	for _, b := range withStores(s.Binds) {
		if !seen[placeOf(b)] {
			seen[placeOf(b)] = true
			out = append(out, b)
		}
	}
	return out
}

// OwnerSpace is a user namespace in which the files of one user and group are another's,
// for a mount to be mapped by.
func OwnerSpace(uid, gid, payload int) (*os.File, error) {
	s, err := newIDSpace(uid, gid, payload)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(s.fd), "owner"), nil
}

// Refusal is why this user gets no user namespace; nil where one can be had.
func Refusal() error {
	s, err := newIDSpace(os.Geteuid(), os.Getegid(), os.Geteuid())
	if u, ok := errors.AsType[*sandbox.Unsupported](err); ok && u.Guarantee == "namespaces" {
		return err
	}
	if err == nil {
		s.close()
	}
	return nil // another refusal is native's own to explain
}

const allNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// namespaces are those of a list that a box has.
func (l *Lent) namespaces(list uintptr) uintptr {
	if l != nil {
		list &^= unix.CLONE_NEWUSER
	}
	return list
}

// mounts are what the child gets of the host, as root.
func (s *begun) mounts(spec sandbox.Spec) (detached, error) {
	if s.d.lent == nil {
		return cloneMounts(spec.Binds, s.payloadID)
	}
	mounts, places := detached{}, Places(spec)
	if len(places) != len(s.d.lent.Mounts) {
		return mounts, fmt.Errorf("start native: %d mounts for %d places", len(s.d.lent.Mounts), len(places))
	}
	for i, b := range places {
		fd, err := unix.FcntlInt(s.d.lent.Mounts[i].Fd(), unix.F_DUPFD_CLOEXEC, 10)
		if err != nil {
			return mounts, fmt.Errorf("start native: take mount of %s: %w", b.Source, err)
		}
		mounts[placeOf(b)] = fd
	}
	return mounts, nil
}

// building is what the builder keeps of root's power until it gives all up: mounts and the
// host's name, the gate with its port for questions, and the right to lock itself out.
const building = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_SETPCAP

// powers are the capabilities that a builder has.
func (l *Lent) powers() uint64 {
	if l == nil {
		return ^uint64(0)
	}
	return building
}

// lend adds the steps that make root's child the payload's user: from here on it reaches
// no file that this user could not. It has no power over files, processes or users.
func (p *program) lend(l *Lent) {
	p.sys("keep what building takes", unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0, 0, 0)
	p.sys("leave groups", unix.SYS_SETGROUPS, 0, 0)
	p.sys("become the payload's group", unix.SYS_SETRESGID, l.Group, l.Group, l.Group)
	p.sys("become the payload's user", unix.SYS_SETRESUID, l.User, l.User, l.User)
	permitted := uint32(building)
	if l.Mapped {
		permitted |= 1 << unix.CAP_DAC_OVERRIDE
	}
	p.hold("keep no more than building takes", building, permitted)
	p.sys("keep nothing again", unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 0, 0, 0, 0)
}

// hold has the builder keep so many capabilities.
func (p *program) hold(name string, effective, permitted uint32) {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	sets := make([]byte, 24)
	*int32At(sets, 0), *int32At(sets, 4) = int32(effective), int32(permitted)
	p.sys(name, unix.SYS_CAPSET, pointerTo(header), sets)
}

// overlays sets what the builder can do while an overlay is made, which opens the folder of
// mode 000 in which it works: whoever makes one in a user namespace has that power there.
// Its folders were opened before, with the payload's rights and through no link, and all lie
// on mapped mounts, on which that power reaches only what is mapped (capabilities(7)).
func (l *Lent) overlays(p *program, effective uint32) {
	if l != nil && l.Mapped {
		p.hold("make overlays", effective, building|1<<unix.CAP_DAC_OVERRIDE)
	}
}

// give hands the outer end of the command's terminal out.
func (l *Lent) give(master int) error {
	f := os.NewFile(uintptr(master), "terminal")
	defer f.Close() // the taker has a descriptor of its own
	return l.Terminal(f)
}
