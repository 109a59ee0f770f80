package lsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Session is a control group whose processes the kernel judges. Its methods may be called
// from several goroutines.
type Session struct {
	kernel Backend
	group  string

	mu     sync.Mutex
	view   view
	held   map[uint64]*object // by their labels
	closed bool
	pid    int      // whose view the paths are of
	eyes   *os.File // a descriptor of the same process
	// forbidden are labels by the paths of the rules.
	forbidden map[string][]uint64
	before    Counts      // of what proved the kernel
	proof     unix.Stat_t // the file that proved it, whose events are none of the session's
}

// Begin makes a control group a session. Its processes open nothing until Apply gave it
// a policy; the error is one where the kernel does not keep them from it.
func (k *Kernel) Begin(ctx context.Context, group string) (*Session, error) {
	dir, err := os.Open(group)
	if err != nil {
		return nil, fmt.Errorf("begin a session of the LSM: %w", err)
	}
	defer dir.Close()
	a, err := k.Attach(dir, 0)
	if err != nil {
		return nil, err
	}
	return Over(ctx, a, group)
}

// Over is a session by way of a backend, once the kernel was seen to judge the group. Closing the
// session closes the backend, which an error does too.
func Over(ctx context.Context, b Backend, group string) (*Session, error) {
	s := &Session{kernel: b, group: group, held: map[uint64]*object{}}
	if err := s.canary(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Apply makes p what the session may do, from this moment on, for all that it does. The
// paths of the rules are looked up as process pid sees them. Paths that nothing has are
// an Absent beside a policy that is in force without them.
func (s *Session) Apply(pid int, p Policy) error {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fmt.Errorf("apply a policy of files: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.eyes != nil {
		s.eyes.Close()
	}
	s.pid, s.eyes = pid, os.NewFile(uintptr(pidfd), "process")
	return s.apply(p, false)
}

// Replace is Apply in one step after another policy, which rules on in whole after an error: also
// where nothing has a path. Paths are those of the process of Apply. No access that begins after
// it returned is judged by the earlier policy, and none meanwhile by neither. What a rule of both forbade before
// it forbids still, under whatever name it lies now.
func (s *Session) Replace(p Policy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply(p, true)
}

func (s *Session) apply(p Policy, again bool) error {
	if s.closed || s.eyes == nil {
		return errors.New("apply a policy of files: the session of the LSM has ended")
	}
	found, absent, err := s.find(p, again)
	if err == nil && again && len(absent) > 0 {
		err = &Absent{Paths: absent}
	}
	if err == nil {
		err = s.kernel.Swap(found.bits, files(found.held))
	}
	if err != nil {
		if found != nil {
			found.close()
		}
		return fmt.Errorf("apply a policy of files: %w", err)
	}
	for _, o := range s.held {
		o.file.Close()
	}
	s.held, s.view, s.forbidden = found.held, found.view, found.forbidden
	if len(absent) > 0 {
		return &Absent{Paths: absent}
	}
	return nil
}

// find labels what the rules of a policy speak of.
func (s *Session) find(p Policy, again bool) (_ *found, absent []string, _ error) {
	v, err := viewOf(s.pid)
	if err != nil {
		return nil, nil, err
	}
	defer v.root.Close()
	// It lives still, so that no other process had its number meanwhile.
	if err := unix.PidfdSendSignal(int(s.eyes.Fd()), 0, nil, 0); err != nil {
		return nil, nil, fmt.Errorf("the process whose files are meant: %w", err)
	}
	own, err := viewOf(os.Getpid())
	if err != nil {
		return nil, nil, err
	}
	defer own.root.Close()
	f := &found{
		label: s.kernel.Label, view: v, own: own, held: map[uint64]*object{}, bits: map[uint64]Bits{},
		forbidden: map[string][]uint64{}, before: s.forbidden, earlier: s.held, again: again,
	}
	for _, r := range p.Rules {
		kept, err := f.still(r)
		if err != nil {
			return f, nil, fmt.Errorf("%s: %w", r.Path, err)
		}
		switch err := f.rule(r); {
		case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
			if !kept {
				absent = append(absent, r.Path)
			}
		case err != nil:
			return f, nil, fmt.Errorf("%s: %w", r.Path, err)
		}
	}
	f.bits[0] = p.base()
	return f, absent, nil
}

// base is what the policy says of everything, and how it is kept.
func (p Policy) base() Bits {
	restricts := p.Permit&^p.Forbid&Exec == 0
	spoken := p.Forbid
	for _, r := range p.Rules {
		restricts = restricts || r.Forbid&Exec != 0
		spoken |= r.Permit | r.Forbid
		if r.Forbid != 0 {
			spoken |= Write // the folders above it are held
		}
	}
	b := Bits{Permit: uint32(p.Permit), Forbid: uint32(p.Forbid), Flags: uint32(spoken) << spokenShift}
	if restricts {
		b.Flags |= noFilelessFlag | uint32(Exec|Code)<<spokenShift
	}
	if p.Guarded {
		b.Flags |= GuardedFlag
	}
	if p.Mode != Enforce {
		b.Flags |= letsFlag
	}
	if p.Mode == Record {
		b.Flags |= recordsFlag
	}
	return b
}

// Read waits for the next event, until a time; os.ErrDeadlineExceeded says that there was
// none, io.EOF that the session has ended or was drained. It is for one goroutine.
func (s *Session) Read(until time.Time) (Event, error) {
	for {
		raw, err := s.kernel.Read(until)
		if err != nil {
			return Event{}, err
		}
		e, own, err := s.decode(raw)
		if err != nil || !own {
			return e, err
		}
	}
}

// Drain has Read give the events that there are, and then io.EOF.
func (s *Session) Drain() error { return s.kernel.Drain() }

// decode reads an event. One that proved the kernel is our own.
func (s *Session) decode(raw []byte) (_ Event, own bool, _ error) {
	var x objectsExecution
	e := &x.Event
	var err error
	if len(raw) >= binary.Size(&x) {
		_, err = binary.Decode(raw, binary.NativeEndian, &x)
	} else {
		_, err = binary.Decode(raw, binary.NativeEndian, e)
	}
	if err != nil || int(e.Length) > len(e.Names) || int(x.Length) > len(x.Words) {
		return Event{}, false, fmt.Errorf("read events of the LSM: %d bytes are none: %w", len(raw), err)
	}
	if s.proof.Ino != 0 && e.Ino == s.proof.Ino && e.Dev == kernelDev(s.proof.Dev) {
		return Event{}, true, nil
	}
	out := Event{
		When: wall(e.When), PID: int(e.Tgid), Op: Op(e.Op), Need: Rights(e.Need), Why: Why(e.Why),
		Let: e.Let != 0, Folder: e.Folder != 0, Words: split(x.Words[:x.Length]),
	}
	if n := int(x.Count); n > len(out.Words) {
		out.More = n - len(out.Words)
	}
	comm, _, _ := strings.Cut(string(e.Comm[:]), "\x00")
	out.Program = comm
	names := split(e.Names[:e.Length]) // from the object upwards
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.held[e.Label]; o != nil && e.Label != 0 && int(e.Below) <= len(names) {
		out.Rule, out.Path = o.path, path.Join(o.path, joined(names[:e.Below]))
		return out, false, nil
	}
	out.Path, out.Unseen = s.view.shown(e.Dev, "/"+joined(names))
	return out, false, nil
}

// split are strings with a zero after each.
func split(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// joined are names from an object upwards as a path.
func joined(names []string) string {
	names = slices.Clone(names)
	slices.Reverse(names)
	return strings.Join(names, "/")
}

// wall is a time since boot as a time of day.
func wall(boot uint64) time.Time {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return time.Now()
	}
	return time.Now().Add(time.Duration(int64(boot) - now.Nano()))
}

// kernelDev is a device as the kernel has it in a super block.
func kernelDev(dev uint64) uint32 { return unix.Major(dev)<<20 | unix.Minor(dev) }

// Counts are the session's numbers.
func (s *Session) Counts() (Counts, error) {
	c, err := s.kernel.Counts()
	if err != nil {
		return Counts{}, fmt.Errorf("read the counts of the LSM: %w", err)
	}
	return Counts{
		Denied: c.Denied - s.before.Denied, Dropped: c.Dropped - s.before.Dropped, Repeated: c.Repeated - s.before.Repeated,
	}, nil
}

// Freeze stops all processes of the session where they are, until its group is ended or thawed.
func (s *Session) Freeze() error {
	if err := os.WriteFile(path.Join(s.group, "cgroup.freeze"), []byte("1"), 0); err != nil {
		return fmt.Errorf("freeze a session of the LSM: %w", err)
	}
	return nil
}

// Group is the folder of the session's control group.
func (s *Session) Group() string { return s.group }

// Close ends the session: what of it still lives opens nothing any more.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.kernel.Close()
	for _, o := range s.held {
		o.file.Close()
	}
	s.held = nil
	if s.eyes != nil {
		s.eyes.Close()
	}
	return err
}

// canary proves that the kernel refuses a process of this group to open and to execute a
// file, and that nothing else would have.
func (s *Session) canary(ctx context.Context) error {
	fd, err := unix.MemfdCreate("cloister-canary", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("prove the LSM: %w", err)
	}
	file := os.NewFile(uintptr(fd), "canary")
	defer file.Close()
	if _, err := file.WriteString("no program\n"); err != nil {
		return fmt.Errorf("prove the LSM: %w", err)
	}
	if err := unix.Fstat(fd, &s.proof); err != nil {
		return fmt.Errorf("prove the LSM: %w", err)
	}
	label, err := s.kernel.Label(file)
	if err != nil {
		return fmt.Errorf("prove the LSM: %w", err)
	}
	for _, c := range []struct {
		what   string
		forbid Rights
		group  string
		want   unix.Errno
	}{
		{"a file that is not forbidden", 0, s.group, unix.ENOEXEC},
		{"to open a file", Read, s.group, unix.EACCES},
		{"to execute a file", Exec, s.group, unix.EACCES},
		{"a file, of another group", All, "", unix.ENOEXEC},
	} {
		bits := map[uint64]Bits{
			0: {Permit: uint32(All), Flags: uint32(All) << spokenShift}, label: {Forbid: uint32(c.forbid)},
		}
		if err := s.kernel.Swap(bits, map[uint64]*os.File{label: file}); err != nil {
			return fmt.Errorf("prove the LSM: %w", err)
		}
		if err := startIn(ctx, c.group, fmt.Sprintf("/proc/self/fd/%d", fd)); !errors.Is(err, c.want) {
			return &Unsupported{
				Reason: fmt.Sprintf("the programs are attached and do not judge: %s gave %v, not %v", c.what, err, c.want),
				Fix:    "boot with bpf in the list of security modules: lsm=…,bpf",
			}
		}
	}
	if err := s.kernel.Swap(nil, nil); err != nil {
		return fmt.Errorf("prove the LSM: %w", err)
	}
	if s.before, err = s.kernel.Counts(); err != nil {
		return fmt.Errorf("prove the LSM: %w", err)
	}
	return nil
}
