//go:build linux

package landlock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Version asks the kernel for its ABI. The error is ENOSYS or EOPNOTSUPP where it
// has no Landlock.
func Version() (int, error) {
	v, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, e
	}
	return int(v), nil
}

// Enter puts the calling thread, and what it executes, behind the rules for good.
// opened are the regular files among its descriptors, each with its rights.
func Enter(abi int, writable []string, opened map[int]uint64) error {
	return EnterRules(abi, Rules(abi, writable), opened)
}

// EnterRules is Enter with rules of the caller's own.
func EnterRules(abi int, rules []Rule, opened map[int]uint64) error {
	attr, size := Attr(abi)
	at := uintptr(unsafe.Pointer(attr))
	r, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, at, uintptr(size), 0)
	if e != 0 {
		return fmt.Errorf("make Landlock's rules: %w", e)
	}
	ruleset := int(r)
	defer unix.Close(ruleset)
	unix.CloseOnExec(ruleset)
	for _, rule := range rules {
		fd, err := unix.Open(rule.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s for Landlock: %w", rule.Path, err)
		}
		err = add(ruleset, fd, rule.Rights)
		unix.Close(fd)
		if err != nil {
			return fmt.Errorf("allow %s: %w", rule.Path, err)
		}
	}
	for fd, rights := range opened {
		if err := add(ruleset, fd, rights); err != nil {
			return fmt.Errorf("allow a standard descriptor: %w", err)
		}
	}
	if _, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); e != 0 {
		return fmt.Errorf("enter Landlock: %w", e)
	}
	return nil
}

func add(ruleset, fd int, rights uint64) error {
	rule := Encode(rights, int32(fd))
	at := uintptr(unsafe.Pointer(&rule[0]))
	_, _, e := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, at, 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
