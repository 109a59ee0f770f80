package native

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/gate"
	"cloister/sandbox/streams"
)

// joint is what the parent and the child share while the box is built.
type joint struct {
	statusR, statusW int
	lifeR, lifeW     int
	goR, goW         int
	execR, execW     int
	ctlP, ctlC       int
	stdio            [3]int // duplicates of the caller's descriptors, for the child
	tty              [3]bool
	files            [3]stdFile
	pass             []int // what a hosted kernel gets besides
	handed           bool  // the child has its descriptors
	watched          bool  // the child hands a listener out
}

func newJoint(g sandbox.Ground, h *Hosted) (*joint, error) {
	j := &joint{}
	pipe := func(r, wr *int) error {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			return fmt.Errorf("start native: open pipe: %w", err)
		}
		*r, *wr = fds[0], fds[1]
		return nil
	}
	for _, f := range []*int{
		&j.statusR, &j.statusW, &j.lifeR, &j.lifeW, &j.goR, &j.goW, &j.execR, &j.execW, &j.ctlP, &j.ctlC,
		&j.stdio[0], &j.stdio[1], &j.stdio[2],
	} {
		*f = -1
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start native: open socket pair: %w", err)
	}
	j.ctlP, j.ctlC = pair[0], pair[1]
	err = errors.Join(pipe(&j.statusR, &j.statusW), pipe(&j.lifeR, &j.lifeW),
		pipe(&j.goR, &j.goW), pipe(&j.execR, &j.execW))
	for i, f := range []*os.File{g.Stdin, g.Stdout, g.Stderr} {
		if err == nil {
			err = j.take(i, f)
		}
	}
	if err == nil {
		err = j.takeAlong(h)
	}
	if err != nil {
		j.closeChild()
		j.closeParent()
		return nil, err
	}
	return j, nil
}

// take duplicates one of the caller's descriptors for the child.
func (j *joint) take(i int, f *os.File) error {
	s, err := streams.Look(i, f, os.Geteuid() == 0)
	if err != nil {
		return fmt.Errorf("start native: %w", err)
	}
	if j.tty[i] = s.Terminal; s.Terminal {
		return nil
	}
	if j.stdio[i], err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 10); err != nil {
		return fmt.Errorf("start native: pass standard descriptor %d on: %w", i, err)
	}
	if s.File {
		j.files[i] = stdFile{fd: j.stdio[i], flags: s.Flags, is: true}
	}
	return nil
}

func (j *joint) wantsTerminal() bool { return j.tty[0] || j.tty[1] || j.tty[2] }

func closeAll(fds ...*int) {
	for _, fd := range fds {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// closeChild closes this process's copies of what the child has. The numbers
// stay: they are the child's, and later steps name them.
func (j *joint) closeChild() {
	if j.handed {
		return
	}
	j.handed = true
	for _, fd := range j.childFDs()[3:] {
		unix.Close(fd)
	}
}

func (j *joint) closeParent() { closeAll(&j.statusR, &j.lifeW, &j.goW, &j.execR, &j.ctlP) }

// childFDs are the descriptors that the child keeps at first.
func (j *joint) childFDs(more ...int) []int {
	out := []int{0, 1, 2}
	own := []int{j.statusW, j.lifeR, j.goR, j.execW, j.ctlC, j.stdio[0], j.stdio[1], j.stdio[2]}
	for _, fd := range slices.Concat(own, j.pass, more) {
		if fd >= 0 {
			out = append(out, fd)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// closeOthers adds the steps that close every descriptor but those listed.
func (p *program) closeOthers(keep []int) {
	next := 0
	for _, fd := range keep {
		if fd > next {
			p.sys("close descriptors", unix.SYS_CLOSE_RANGE, next, fd-1, 0)
		}
		next = fd + 1
	}
	p.sys("close descriptors", unix.SYS_CLOSE_RANGE, next, uintptr(^uint32(0)), 0)
}

// say gives the child the word to go on.
func (j *joint) say() error {
	for {
		_, err := unix.Write(j.goW, []byte{1})
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("start native: %w", err)
		}
		return nil
	}
}

// hear waits for a word of the child.
func (j *joint) hear() error {
	for {
		n, err := unix.Read(j.ctlP, make([]byte, 1))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("start native: %w", err)
		case n == 0:
			return errors.New("start native: the child ended early")
		}
		return nil
	}
}

func newChildState(j *joint) *childState {
	return &childState{status: int32(j.statusW), life: int32(j.lifeR), signals: -1}
}

// await adds the step that waits for the parent's word.
func (p *program) await(name string, j *joint) {
	p.sys(name, unix.SYS_READ, j.goR, make([]byte, 1), 1).want(1)
}

// receive takes n descriptors that the child sent in one message.
func receive(socket, n int) ([]int, error) {
	space, data := make([]byte, unix.CmsgSpace(4*n)), make([]byte, 1)
	for {
		got, oob, flags, _, err := unix.Recvmsg(socket, data, space, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("start native: hear from the child: %w", err)
		}
		if got == 0 || flags&unix.MSG_CTRUNC != 0 {
			return nil, errors.New("start native: the child ended early")
		}
		messages, err := unix.ParseSocketControlMessage(space[:oob])
		if err != nil || len(messages) != 1 {
			return nil, fmt.Errorf("start native: read the child's descriptors: %w", err)
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != n {
			return nil, fmt.Errorf("start native: read the child's descriptors: %d of %d: %w", len(fds), n, err)
		}
		return fds, nil
	}
}

func receiveGate(socket int) (sandbox.Gate, error) {
	files, err := receiveFiles(socket, len(gate.Sockets(gate.HaveIPv6()))+1)
	if err != nil {
		return sandbox.Gate{}, err
	}
	return sandbox.GateOf(files), nil
}

// receivePeers takes the sockets of peers, in their order: the child opens the one for all
// addresses last.
func receivePeers(socket int, peers *sandbox.Peers) ([]*os.File, error) {
	files, err := receiveFiles(socket, peers.Sockets())
	if err != nil {
		return nil, err
	}
	last := len(files) - 1
	return append(files[last:], files[:last]...), nil
}

func receiveFiles(socket, n int) ([]*os.File, error) {
	fds, err := receive(socket, n)
	if err != nil {
		return nil, err
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "gate")
	}
	return files, nil
}
