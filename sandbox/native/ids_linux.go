package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// writeMaps gives the child its one id: inside the user's, outside the payload's.
func writeMaps(pid, inside, outside int, asRoot bool) error {
	one := strconv.Itoa(inside) + " " + strconv.Itoa(outside) + " 1\n"
	group := one
	if !asRoot {
		group = strconv.Itoa(inside) + " " + strconv.Itoa(os.Getegid()) + " 1\n"
	}
	proc := "/proc/" + strconv.Itoa(pid)
	if !asRoot {
		// Without the power over groups, giving up setgroups is the price of a
		// group map (user_namespaces(7)).
		if err := writeProc(proc+"/setgroups", "deny"); err != nil {
			return fmt.Errorf("start native: give up groups: %w", err)
		}
	}
	if err := writeProc(proc+"/uid_map", one); err != nil {
		return fmt.Errorf("start native: map user id: %w", err)
	}
	if err := writeProc(proc+"/gid_map", group); err != nil {
		return fmt.Errorf("start native: map group id: %w", err)
	}
	return nil
}

func writeProc(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(text))
	return errors.Join(err, unix.Close(fd))
}

// cloneMounts takes detached copies of the binds' mounts while the parent still
// may, with the owner's files shown as the payload's.
func cloneMounts(binds []sandbox.Bind, payloadID int) (detached, error) {
	mounts := detached{}
	spaces := map[uint32]*idSpace{}
	defer func() {
		for _, s := range spaces {
			s.close()
		}
	}()
	for _, b := range withStores(binds) {
		if b.System || mounts[placeOf(b)] != 0 {
			continue
		}
		at, err := unix.Openat2(unix.AT_FDCWD, string(b.Source),
			&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			return mounts, fmt.Errorf("start native: open %s: %w", b.Source, err)
		}
		var st unix.Stat_t
		err = unix.Fstat(at, &st)
		space := spaces[st.Uid]
		if err == nil && space == nil { // first: where none can be made, that is what is missing
			if space, err = newIDSpace(int(st.Uid), int(st.Gid), payloadID); err == nil {
				spaces[st.Uid] = space
			}
		}
		fd := -1
		if err == nil {
			fd, err = openTree(at, b.Source)
		}
		unix.Close(at)
		if err != nil {
			return mounts, err
		}
		mounts[placeOf(b)] = fd
		// Private: a clone stays a peer of a shared mount (systemd makes "/" one),
		// and what the child mounts on it would appear on the host.
		attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Propagation: unix.MS_PRIVATE, Userns_fd: uint64(space.fd)}
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
			return mounts, &sandbox.Unsupported{
				Guarantee: "file ownership", Reason: fmt.Sprintf("start native: map the owner of %s: %v", b.Source, err),
				Fix: "the file system under it has no id-mapped mounts (Linux 5.12 and ext4, xfs, btrfs, tmpfs have): run " +
					"cloister as an ordinary user there",
			}
		}
	}
	return mounts, nil
}

// openTree clones what is mounted at a descriptor.
func openTree(at int, source sandbox.HostPath) (int, error) {
	fd, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.EPERM) {
		return -1, &sandbox.Unsupported{
			Guarantee: "namespaces", Reason: fmt.Sprintf("start native: this root may not clone the mount of %s: it is root "+
				"in a namespace that has no mounts of its own", source),
			Fix: "run cloister as an ordinary user, or give that root mounts of its own (unshare --mount)",
		}
	}
	if err != nil {
		return -1, fmt.Errorf("start native: clone mount of %s: %w", source, err)
	}
	return fd, nil
}

// detached are mounts that the parent cloned for the child. Each place has one of
// its own: a mount that is attached a second time is moved, and gone from the first.
type detached map[place]int

type place struct {
	source sandbox.HostPath
	target sandbox.GuestPath
}

func placeOf(b sandbox.Bind) place { return place{b.Source, b.Target} }

// storeOf is the place of the folder in which a bind's overlay keeps what is written.
func storeOf(b sandbox.Bind) place { return place{b.Upper.Store, "upper of " + b.Target} }

// withStores adds the stores of overlays to the binds.
func withStores(binds []sandbox.Bind) []sandbox.Bind {
	out := slices.Clip(binds)
	for _, b := range binds {
		if b.Upper != nil {
			at := storeOf(b)
			out = append(out, sandbox.Bind{Source: at.source, Target: at.target, Access: sandbox.ReadWrite})
		}
	}
	return out
}

func (d detached) close() {
	for _, fd := range d {
		unix.Close(fd)
	}
}

// passMounts sends the mounts to the child and adds the step that takes them.
// Each is the cell in which its descriptor will be.
func (p *program) passMounts(j *joint, mounts detached) (map[place]*int32, error) {
	if len(mounts) == 0 {
		return nil, nil
	}
	if len(mounts) > maxPassed {
		return nil, fmt.Errorf("start native: %d folders of different places are shown; at most %d can be as root",
			len(mounts), maxPassed)
	}
	var fds []int
	cells := map[place]*int32{}
	space := make([]byte, unix.CmsgSpace(4*len(mounts)))
	at := cmsgInts(space, len(mounts))
	for where, fd := range mounts {
		cells[where] = &at[len(fds)]
		fds = append(fds, fd)
	}
	if err := unix.Sendmsg(j.ctlP, []byte{1}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); err != nil {
		return nil, fmt.Errorf("start native: pass mounts: %w", err)
	}
	data := make([]byte, 1)
	iov := &unix.Iovec{Base: &data[0]}
	iov.SetLen(1)
	msg := &unix.Msghdr{Iov: iov, Control: &space[0]}
	msg.SetIovlen(1)
	msg.SetControllen(len(space))
	p.keep = append(p.keep, data, iov, space)
	p.sys("take mounts", unix.SYS_RECVMSG, j.ctlC, pointerTo(msg), unix.MSG_CMSG_CLOEXEC).want(1)
	return cells, nil
}

// maxPassed is how many descriptors one message can carry (SCM_MAX_FD).
const maxPassed = 253

// idSpace is a user namespace that only serves to map a file owner.
type idSpace struct{ fd int }

func (s *idSpace) close() { unix.Close(s.fd) }

// newIDSpace makes a user namespace in which the owner on disk is the payload.
func newIDSpace(uid, gid, payloadID int) (*idSpace, error) {
	var hold [2]int
	if err := unix.Pipe2(hold[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("start native: map file owner: %w", err)
	}
	p := newProgram()
	// Also the pipes of others that are made at the same time: a holder of one would end after them,
	// and they after it.
	p.closeOthers([]int{hold[0]})
	p.sys("hold the namespace", unix.SYS_READ, hold[0], make([]byte, 1), 1).optional()
	p.sys("end", unix.SYS_EXIT_GROUP, 0)
	runtime.LockOSThread()
	syscall.ForkLock.Lock()
	st := &childState{status: -1}
	pid, errno := spawn(unix.CLONE_NEWUSER, p, st)
	syscall.ForkLock.Unlock()
	runtime.UnlockOSThread()
	unix.Close(hold[0])
	if errno != 0 {
		unix.Close(hold[1])
		return nil, namespaceError(errno)
	}
	proc := "/proc/" + strconv.Itoa(pid)
	err := errors.Join(
		writeProc(proc+"/uid_map", fmt.Sprintf("%d %d 1\n", uid, payloadID)),
		writeProc(proc+"/gid_map", fmt.Sprintf("%d %d 1\n", gid, payloadID)),
	)
	fd := -1
	if err == nil {
		fd, err = unix.Open(proc+"/ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	unix.Close(hold[1])
	for {
		if _, e := unix.Wait4(pid, nil, 0, nil); e != unix.EINTR {
			break
		}
	}
	runtime.KeepAlive(st)
	p.alive()
	if errors.Is(err, unix.EPERM) { // user_namespaces(7): a root of few ids
		return nil, &sandbox.Unsupported{
			Guarantee: "file ownership", Reason: "start native: this root may map no other user's files: it is root in a user " +
				"namespace of its own ids alone",
			Fix: "run cloister as an ordinary user",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start native: map file owner: %w", err)
	}
	return &idSpace{fd: fd}, nil
}
