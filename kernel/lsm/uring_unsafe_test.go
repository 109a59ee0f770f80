//go:build linux

package lsm_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uringOpen opens a file by a ring of io_uring, which no system call of open sees.
func uringOpen(name string) error {
	const (
		entries   = 4
		opOpenat  = 18  // include/uapi/linux/io_uring.h
		setup     = 425 // of every architecture
		enter     = 426
		offSQRing = 0
		offSQEs   = 0x10000000
	)
	var params [30]uint32 // struct io_uring_params
	fd, _, errno := unix.Syscall(setup, entries, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return fmt.Errorf("io_uring_setup: %w", errno)
	}
	defer unix.Close(int(fd))
	ring, err := unix.Mmap(int(fd), offSQRing, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map the ring: %s", err.Error())
	}
	sqes, err := unix.Mmap(int(fd), offSQEs, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map the entries: %s", err.Error())
	}
	path := append([]byte(name), 0)
	sqes[0] = opOpenat
	*(*int32)(unsafe.Pointer(&sqes[4])) = unix.AT_FDCWD
	*(*uint64)(unsafe.Pointer(&sqes[16])) = uint64(uintptr(unsafe.Pointer(&path[0])))
	// params: sq_entries, cq_entries, flags, …; sq_off begins at word 10, cq_off at 20.
	sqTail, sqArray := params[11], params[16]
	cqHead, cqTail, cqes := params[20], params[21], params[25]
	*(*uint32)(unsafe.Pointer(&ring[sqArray])) = 0
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&ring[sqTail])), 1)
	if _, _, errno := unix.Syscall6(enter, fd, 1, 1, 1, 0, 0); errno != 0 {
		return fmt.Errorf("io_uring_enter: %s", errno.Error())
	}
	runtime.KeepAlive(path)
	if atomic.LoadUint32((*uint32)(unsafe.Pointer(&ring[cqTail]))) == *(*uint32)(unsafe.Pointer(&ring[cqHead])) {
		return fmt.Errorf("io_uring gave no answer")
	}
	if res := *(*int32)(unsafe.Pointer(&ring[cqes+8])); res < 0 {
		return unix.Errno(-res)
	}
	return nil
}
