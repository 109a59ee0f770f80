//go:build linux

package localuser_test

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deniedName is the word by which this test binary becomes another user's program to whom the
// kernel gives no user namespace: its words are the uid and what to execute, itself if empty.
const deniedName = "__denied"

// denied installs the filter as root, which needs no no_new_privs for it, becomes the user,
// and executes the rest of the words.
func denied(args []string) error {
	uid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if uid < 0 { // root without one capability
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(-uid), 0, 0, 0); err != nil {
			return err
		}
		return syscall.Exec(args[1], append([]string{"test"}, args[2:]...), os.Environ())
	}
	low := uint32(0) // of the first argument, where its low half lies
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		low = 4
	}
	const namespaced = unix.CLONE_NEWUSER
	load := func(at uint32) unix.SockFilter { return unix.SockFilter{Code: 0x20, K: at} }
	same := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: 0x15, Jt: yes, Jf: no, K: k}
	}
	filter := []unix.SockFilter{
		load(0),
		same(unix.SYS_CLONE3, 6, 0),
		same(unix.SYS_CLONE, 1, 0),
		same(unix.SYS_UNSHARE, 0, 2),
		load(16 + low),
		{Code: 0x45, K: namespaced, Jt: 1}, // any of these bits
		{Code: 0x06, K: unix.SECCOMP_RET_ALLOW},
		{Code: 0x06, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: 0x06, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}
	prog := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(prog))); errno != 0 {
		return errno
	}
	if uid != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(uid), syscall.Setuid(uid)); err != nil {
			return err
		}
	}
	return syscall.Exec(args[1], append([]string{"test"}, args[2:]...), os.Environ())
}
