//go:build linux

package main

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// program is all that the child needs, as it goes to the kernel.
type program struct {
	files    []*byte
	argv     []*byte
	env      []*byte
	filter   unix.SockFprog
	text     []unix.SockFilter
	uids     []byte
	gids     []byte
	deny     []byte
	uidMap   *byte
	gidMap   *byte
	groups   *byte
	terminal int // of the standard descriptors the first that is one; else -1
	pipe     [2]int32
	all      uint64
	none     uint64
	pgid     int32
	handler  [4]uint64 // the kernel's default
}

// hideArguments empties what /proc shows of this process.
func hideArguments(args []string) {
	for _, a := range args {
		if len(a) > 0 {
			b := unsafe.Slice(unsafe.StringData(a), len(a))
			clear(b)
		}
	}
}

func prepare(o order) (*program, error) {
	p := &program{terminal: -1, all: ^uint64(0), text: o.filter}
	p.filter = unix.SockFprog{Len: uint16(len(o.filter)), Filter: &o.filter[0]}
	env := os.Environ()
	var err error
	for _, f := range candidates(o.argv[0], env) {
		b, err := syscall.BytePtrFromString(f)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, b)
	}
	if p.argv, err = syscall.SlicePtrFromStrings(o.argv); err != nil {
		return nil, err
	}
	if p.env, err = syscall.SlicePtrFromStrings(env); err != nil {
		return nil, err
	}
	uid, gid := itoa(os.Getuid()), itoa(os.Getgid())
	p.uids, p.gids, p.deny = []byte(uid+" "+uid+" 1\n"), []byte(gid+" "+gid+" 1\n"), []byte("deny")
	p.uidMap, p.gidMap, p.groups = cstring("/proc/self/uid_map"), cstring("/proc/self/gid_map"), cstring("/proc/self/setgroups")
	for i := range 3 {
		if _, err := unix.IoctlGetTermios(i, unix.TCGETS); err == nil {
			p.terminal = i
			break
		}
	}
	return p, nil
}

func cstring(s string) *byte {
	b, err := syscall.BytePtrFromString(s)
	if err != nil {
		panic(err) // a constant
	}
	return b
}

func itoa(n int) string {
	if n == 0 {
		return "0"
	}
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

// rawSpawn is clone(2), with a stack on which the child calls entry. It returns what the
// kernel returned to the parent.
//
//go:noescape
func rawSpawn(flags, stack, entry uintptr, p *program) uintptr

// childStack is more than the child's few calls need.
const childStack = 64 << 10

// spawn makes the command. The child shares this process's memory until it is something else,
// while this thread waits: a copy of it would be one more address space, which costs gVisor
// some 10 ms. So the child makes nothing but system calls, on a stack of its own.
func (p *program) spawn() (pid int, errno syscall.Errno) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return 0, err.(syscall.Errno)
	}
	p.pipe = [2]int32{int32(fds[0]), int32(fds[1])}
	stack := make([]byte, childStack)
	top := (uintptr(unsafe.Pointer(&stack[0])) + childStack) &^ 15
	entry := (*program).child
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&p.all)), uintptr(unsafe.Pointer(&p.none)), 8, 0, 0)
	r := rawSpawn(uintptr(unix.SIGCHLD)|unix.CLONE_NEWUSER|unix.CLONE_VM|unix.CLONE_VFORK, top, **(**uintptr)(unsafe.Pointer(&entry)), p)
	runtime.KeepAlive(stack)
	var e syscall.Errno
	if n := int(r); n < 0 {
		e = syscall.Errno(-n)
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&p.none)), 0, 8, 0, 0)
	unix.Close(fds[1])
	defer unix.Close(fds[0])
	if e != 0 {
		return 0, e
	}
	var code [4]byte
	for {
		n, err := unix.Read(fds[0], code[:])
		if err == unix.EINTR {
			continue
		}
		if n == 4 {
			return 0, syscall.Errno(*(*int32)(unsafe.Pointer(&code)))
		}
		return int(r), 0
	}
}

// child maps its ids, stands in front of the terminal, and becomes the command.
//
//go:nosplit
//go:norace
func (p *program) child() {
	e := put(p.groups, p.deny)
	if e == 0 {
		e = put(p.uidMap, p.uids)
	}
	if e == 0 {
		e = put(p.gidMap, p.gids)
	}
	if e == 0 {
		e = p.become(true)
	}
	code := int32(e)
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(p.pipe[1]), uintptr(unsafe.Pointer(&code)), 4)
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 126, 0, 0)
	}
}

//go:nosplit
//go:norace
func put(path *byte, text []byte) syscall.Errno {
	at := int64(unix.AT_FDCWD)
	fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(path)), unix.O_WRONLY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return e
	}
	_, _, e = syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)))
	syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	return e
}

// become gives up privileges, enters the filter and executes the command. It returns only
// what was wrong.
//
//go:nosplit
//go:norace
func (p *program) become(forked bool) syscall.Errno {
	if forked {
		if p.terminal >= 0 {
			syscall.RawSyscall(unix.SYS_SETPGID, 0, 0, 0)
			pid, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
			p.pgid = int32(pid)
			syscall.RawSyscall(unix.SYS_IOCTL, uintptr(p.terminal), unix.TIOCSPGRP, uintptr(unsafe.Pointer(&p.pgid)))
		} else {
			syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		}
		for c := uintptr(0); c <= 40; c++ { // the last that gVisor knows
			syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0, 0, 0, 0)
		}
	}
	if _, _, e := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); e != 0 {
		return e
	}
	syscall.RawSyscall(unix.SYS_UMASK, 0o022, 0, 0)
	if _, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, 1, 0, uintptr(unsafe.Pointer(&p.filter))); e != 0 {
		return e
	}
	if forked {
		// This process's handlers are not to run on the child's stack, in memory that it shares.
		for sig := uintptr(1); sig <= 64; sig++ {
			syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&p.handler)), 0, 8, 0, 0)
		}
		syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, 2, uintptr(unsafe.Pointer(&p.none)), 0, 8, 0, 0)
	}
	found := syscall.ENOENT
	for _, file := range p.files {
		_, _, e := syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(file)), uintptr(unsafe.Pointer(&p.argv[0])),
			uintptr(unsafe.Pointer(&p.env[0])))
		if e != syscall.ENOENT && e != syscall.ENOTDIR && found == syscall.ENOENT {
			found = e
		}
	}
	return found
}
