//go:build linux

package native

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pointer is an address with what keeps it alive.
type pointer struct {
	addr uintptr
	keep any
}

func addressOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

func pointerTo[T any](p *T) pointer { return pointer{addressOf(p), p} }

// words is a NULL-terminated vector of C strings, as execve takes.
func (p *program) words(list []string) pointer {
	v := make([]uintptr, len(list)+1)
	for i, s := range list {
		v[i] = p.str(s)
	}
	return pointer{addressOf(&v[0]), v}
}

// report is what the child writes on the status pipe.
type report struct {
	Kind  int32
	Index int32
	Errno int32
	Value int32
}

const (
	reportSetup   = 1 // a setup step failed
	reportAfter   = 2 // a step of the first process after the fork failed
	reportPayload = 3 // a payload step failed
	reportExec    = 4 // no candidate could be executed
	reportEnd     = 5 // the command ended; Value is its wait status, Index whether it was the last
)

// childState is all the memory that the child writes, made by the parent.
type childState struct {
	report  report
	part    int32 // of the set-up, that runs
	payload int32 // process id of the command
	status  int32 // fd of the status pipe
	life    int32 // fd whose other end the shim holds: it hangs up when the shim dies
	signals int32 // signalfd
	wait    int32
	execErr int32
	poll    [2]unix.PollFd
	siginfo unix.SignalfdSiginfo
	sigset  uint64
	action  [32]byte // struct sigaction with SIG_DFL
	entry   uintptr  // of the payload
	// outlives says that the payload ends by itself when the shim is gone.
	outlives bool
	stacks   [2 * stackSize]byte
}

// rawSpawn is clone(2) with a stack of its own, on which the child runs entry.
// Written in assembly: the child must not return into a frame that its parent
// uses as well. It lets p and st escape on purpose: on a goroutine's stack, which
// moves, they would move away from under the child.
func rawSpawn(flags, stack, entry uintptr, p *program, st *childState) uintptr

// entryOf is where a function's code begins.
func entryOf(f func(*program, *childState)) uintptr { return **(**uintptr)(unsafe.Pointer(&f)) }

// stackSize is more than the nosplit functions below can use: the linker holds
// a chain of them to 800 bytes.
const stackSize = 16 << 10

// spawn starts a child that shares this process's memory and executes the
// program. Copying a Go process's page tables, and then each page that either
// side writes, costs more than the whole enclosure (measured: 3 ms of 20); and
// shared memory stays hidden from the payload all the same, since it is not
// dumpable. p and st must be kept until the child has ended.
//
// All signals are blocked in the child and their handlers, of which it has a
// copy of its own, reset, so that no Go handler can run there. The child is no
// thread of the Go runtime: it must not allocate, grow its stack, lock or call
// the runtime. Hence nosplit, no interfaces, and nothing but raw system calls.
func spawn(flags uintptr, p *program, st *childState) (int, syscall.Errno) {
	var all, old uint64
	all = ^uint64(0)
	_, _, err := syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 2 /* SIG_SETMASK */, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	if err != 0 {
		return 0, err
	}
	st.entry = entryOf(payload)
	r := int(rawSpawn(flags|unix.CLONE_VM|uintptr(unix.SIGCHLD), st.stackTop(0), entryOf(child), p, st))
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	if r < 0 {
		return 0, syscall.Errno(-r)
	}
	return r, 0
}

// stackTop is where the first or the second child's stack begins: aligned, with
// room for the arguments of the entry.
//
//go:nosplit
//go:norace
func (st *childState) stackTop(n int) uintptr {
	top := uintptr(unsafe.Pointer(&st.stacks)) + uintptr((n+1)*stackSize)
	return top&^15 - 64
}

// child is the first process inside.
//
//go:nosplit
//go:norace
func child(p *program, st *childState) {
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&st.action)), 0, 8, 0, 0)
	}
	// The later parts are written while the earlier run: each ends with a wait.
	for st.part = 0; st.part < parts; st.part++ {
		runList(p.setup[st.part], reportSetup, st)
	}
	// As vfork does: this process waits until the payload has been executed.
	pid := int(rawSpawn(unix.CLONE_VM|unix.CLONE_VFORK|uintptr(unix.SIGCHLD), st.stackTop(1), st.entry, p, st))
	if pid < 0 {
		fail(st, reportAfter, -1, syscall.Errno(-pid))
	}
	st.payload = int32(pid)
	runList(p.afterFork, reportAfter, st)
	guard(st)
}

// payload becomes the command.
//
//go:nosplit
//go:norace
func payload(p *program, st *childState) {
	runList(p.payload, reportPayload, st)
	fail(st, reportExec, 0, syscall.Errno(st.execErr))
}

//go:nosplit
//go:norace
func runList(list []op, kind int32, st *childState) {
	for i := range list {
		o := &list[i]
		if o.kind == zero {
			if code := stored(o.a[0]); code != 0 {
				fail(st, kind, int32(i), syscall.Errno(-code))
			}
			continue
		}
		if o.kind == readOnlyMount {
			if stored(o.a[0])&unix.ST_RDONLY == 0 {
				fail(st, kind, int32(i), 0)
			}
			continue
		}
		if o.kind == overlayMount {
			if stored(o.a[0]) != unix.OVERLAYFS_SUPER_MAGIC {
				fail(st, kind, int32(i), 0)
			}
			continue
		}
		a0, a1, a2, a3, a4, a5 := o.a[0], o.a[1], o.a[2], o.a[3], o.a[4], o.a[5]
		if o.refs != 0 {
			if o.refs&1 != 0 {
				a0 = uintptr(stored(a0))
			}
			if o.refs&2 != 0 {
				a1 = uintptr(stored(a1))
			}
			if o.refs&4 != 0 {
				a2 = uintptr(stored(a2))
			}
			if o.refs&8 != 0 {
				a3 = uintptr(stored(a3))
			}
			if o.refs&16 != 0 {
				a4 = uintptr(stored(a4))
			}
		}
		r, _, e := syscall.RawSyscall6(o.nr, a0, a1, a2, a3, a4, a5)
		if o.kind == execute {
			// Only a failed execve returns. A folder of PATH that lacks the
			// file is no error; one that may not be executed is, unless a
			// later one can be.
			if e != syscall.ENOENT && e != syscall.ENOTDIR || st.execErr == 0 {
				if st.execErr == 0 || st.execErr == int32(syscall.ENOENT) {
					st.execErr = int32(e)
				}
			}
			continue
		}
		if o.out != nil && e == 0 {
			*o.out = int32(r)
		}
		switch o.expect {
		case succeed:
			if e != 0 {
				fail(st, kind, int32(i), e)
			}
		case equal:
			if e != 0 || int64(r) != o.value {
				fail(st, kind, int32(i), e)
			}
		case failWith:
			if e == 0 || !among(o, e) {
				fail(st, kind, int32(i), e)
			}
		case proceed:
			if e != 0 && !among(o, e) {
				fail(st, kind, int32(i), e)
			}
		case ignore:
		}
	}
}

// stored is the number at an address of the program's memory. The check of
// pointers that comes with the race detector would call the runtime.
//
//go:nosplit
//go:norace
//go:nocheckptr
func stored(at uintptr) int32 { return *(*int32)(unsafe.Add(unsafe.Pointer(nil), at)) }

//go:nosplit
//go:norace
func among(o *op, e syscall.Errno) bool {
	for _, allowed := range o.errnos {
		if e == syscall.Errno(allowed) {
			return true
		}
	}
	return false
}

//go:nosplit
//go:norace
func fail(st *childState, kind, index int32, err syscall.Errno) {
	st.report = report{Kind: kind, Index: index, Errno: int32(err), Value: st.part}
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(st.status), uintptr(unsafe.Pointer(&st.report)), unsafe.Sizeof(st.report))
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 125, 0, 0)
	}
}

// guard is the life of the first process inside: it reaps, passes signals on to
// the command, and ends, and with it everything inside, when the command has
// ended or the shim is gone.
//
//go:nosplit
//go:norace
func guard(st *childState) {
	st.poll[0].Fd, st.poll[0].Events = st.signals, unix.POLLIN
	st.poll[1].Fd, st.poll[1].Events = st.life, 0
	for {
		syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&st.poll)), 2, 0, 0, 0, 0)
		if st.poll[1].Revents != 0 {
			// The command of one that joined would be left to the host's first process, which may wait for none;
			// as long as no one has, the first process of the box cannot end.
			if !st.outlives {
				syscall.RawSyscall(unix.SYS_KILL, uintptr(st.payload), uintptr(unix.SIGKILL), 0)
			}
			syscall.RawSyscall6(unix.SYS_WAIT4, uintptr(st.payload), 0, 0, 0, 0, 0)
			for {
				syscall.RawSyscall(unix.SYS_EXIT_GROUP, 137, 0, 0)
			}
		}
		for {
			n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(st.signals), uintptr(unsafe.Pointer(&st.siginfo)),
				unsafe.Sizeof(st.siginfo))
			if e != 0 || n == 0 {
				break
			}
			switch sig := st.siginfo.Signo; sig {
			case uint32(unix.SIGCHLD):
			case uint32(unix.SIGINT), uint32(unix.SIGTERM), uint32(unix.SIGHUP), uint32(unix.SIGQUIT):
				// As a terminal does: the whole foreground group is meant.
				syscall.RawSyscall(unix.SYS_KILL, -uintptr(st.payload), uintptr(sig), 0)
			default:
				syscall.RawSyscall(unix.SYS_KILL, uintptr(st.payload), uintptr(sig), 0)
			}
		}
		for {
			pid, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&st.wait)), unix.WNOHANG, 0, 0,
				0)
			if e != 0 || pid == 0 {
				break
			}
			if st.wait&0xff == 0x7f {
				letGo(pid, st.wait)
				continue
			}
			if int32(pid) == st.payload {
				st.report = report{Kind: reportEnd, Value: st.wait, Index: alone()}
				syscall.RawSyscall(unix.SYS_WRITE, uintptr(st.status), uintptr(unsafe.Pointer(&st.report)),
					unsafe.Sizeof(st.report))
				for {
					syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
				}
			}
		}
	}
}

// letGo sends on a child that has stopped and not ended: one that took its parent, the
// first process, for its tracer (PTRACE_TRACEME). It gets the signal at which it
// stopped, but for the SIGTRAP that an execve of a traced process brings.
//
//go:nosplit
//go:norace
func letGo(pid uintptr, status int32) {
	sig := uintptr(status>>8) & 0xff
	if sig == uintptr(syscall.SIGTRAP) {
		sig = 0
	}
	syscall.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, pid, 0, sig, 0, 0)
}

// alone is 1 if the first process has no other children left: since every orphan
// inside becomes its child, nothing that was started inside lives then.
//
//go:nosplit
//go:norace
func alone() int32 {
	for {
		pid, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG, 0, 0, 0)
		switch {
		case e == syscall.ECHILD:
			return 1
		case e != 0 || pid == 0:
			return 0
		}
	}
}
