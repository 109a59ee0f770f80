//go:build linux

package inside

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlockVersion asks the kernel for its ABI.
func landlockVersion() (int, error) {
	v, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if e != 0 {
		return 0, e
	}
	return int(v), nil
}

func newRuleset(rights uint64) (int, error) {
	attr := &unix.LandlockRulesetAttr{Handled_access_fs: rights}
	const size = 8 // the rights on files alone, which every ABI has
	fd, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(attr)), size, 0)
	if e != 0 {
		return -1, e
	}
	unix.CloseOnExec(int(fd))
	return int(fd), nil
}

// allow adds a rule. struct landlock_path_beneath_attr is packed: 8 bytes of
// rights, then the descriptor.
func allow(ruleset, fd int, rights uint64) error {
	var rule [12]byte
	binary.NativeEndian.PutUint64(rule[:], rights)
	binary.NativeEndian.PutUint32(rule[8:], uint32(fd))
	if _, _, e := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule[0])), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// enterRuleset puts the calling thread behind it, for good.
func enterRuleset(ruleset int) error {
	if _, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); e != 0 {
		return e
	}
	return nil
}
