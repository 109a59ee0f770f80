//go:build linux

package watch

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// notice is struct seccomp_notif: a call that waits (seccomp_unotify(2)).
type notice struct {
	id    uint64
	tid   uint32 // as this process numbers it
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	error int32
	flags uint32
}

const setFlags = 0x40082104 // SECCOMP_IOCTL_NOTIF_SET_FLAGS, of 6.6

// swift has the kernel hand the processor over to this process and back, where it knows how:
// whoever calls waits anyhow.
func swift(listener int) {
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), setFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

func receive(listener int, n *notice) error {
	*n = notice{}
	at := uintptr(unsafe.Pointer(n))
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, at); e != 0 {
		return e
	}
	return nil
}

// goOn lets a call go on. An error means that whoever called is gone.
func goOn(listener int, id uint64) {
	a := answer{id: id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	at := uintptr(unsafe.Pointer(&a))
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, at)
}

// refuse has a call fail. An error means that whoever called is gone.
func refuse(listener int, id uint64) {
	a := answer{id: id, error: -int32(unix.EACCES)}
	at := uintptr(unsafe.Pointer(&a))
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, at)
}

// handed is struct seccomp_notif_addfd.
type handed struct {
	id    uint64
	flags uint32
	fd    uint32
	newfd uint32
	with  uint32
}

// handIn makes a descriptor the result of a call, in one step (SECCOMP_ADDFD_FLAG_SEND, Linux 5.14).
// What the call's arguments say by then has no part in it.
func handIn(listener int, id uint64, fd int, closeOnExec bool) error {
	h := handed{id: id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, fd: uint32(fd)}
	if closeOnExec {
		h.with = unix.O_CLOEXEC
	}
	at := uintptr(unsafe.Pointer(&h))
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, at); e != 0 {
		return e
	}
	return nil
}

// waits reports whether a call waits still, so that what was read of its process is its.
func waits(listener int, id uint64) bool {
	at := uintptr(unsafe.Pointer(&id))
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_ID_VALID, at)
	return e == 0
}
