package main

import "golang.org/x/sys/unix"

// sharesMemory tells whether two processes have one address space.
func sharesMemory(a, b int) bool {
	const vm = 1 // KCMP_VM of kcmp(2)
	order, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(a), uintptr(b), vm, 0, 0, 0)
	return errno == 0 && order == 0
}
