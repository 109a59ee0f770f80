package landlock

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Least is the lowest ABI that keeps native's promise: IOCTL_DEV (ABI 5, Linux
// 6.10) is the last right that the mount view does not cover by itself.
const Least = 5

// scopesSince is the ABI (Linux 6.12) that added scopes.
const scopesSince = 6

// rights of Landlock on files, by the ABI that added them. Those of the running
// kernel are all handled, so that a right without a rule is refused.
var rights = map[int]uint64{
	1: unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM,
	2: unix.LANDLOCK_ACCESS_FS_REFER,
	3: unix.LANDLOCK_ACCESS_FS_TRUNCATE,
	5: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
}

const (
	reads       = unix.LANDLOCK_ACCESS_FS_READ_FILE
	writes      = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	viewRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_DIR | reads
	devRights   = reads | writes | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	neverRights = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// Rule grants rights on a path and all below it.
type Rule struct {
	Path    string
	Rights  uint64
	Named   Named
	NoLinks bool // no part of the path may be a link
}

// Named says what must lie at a rule's path for it to grant anything. Its zero value is that
// something does, or the box does not begin.
type Named uint8

// What may lie there.
const (
	Present Named = iota
	Absent        // anything, or nothing
	File          // a file, or nothing is granted
	Dir           // a folder, or nothing is granted
)

// Handled are the rights on files that a kernel of this ABI knows.
func Handled(abi int) uint64 {
	var all uint64
	for added, some := range rights {
		if added <= abi {
			all |= some
		}
	}
	return all
}

// Rules grant reading and executing of everything in the view, writing of the
// listed places, and the use of devices below /dev alone.
func Rules(abi int, writable []string) []Rule {
	all := Handled(abi)
	out := make([]Rule, 0, 2+len(writable))
	out = append(out, Rule{Path: "/", Rights: viewRights & all})
	for _, path := range writable {
		out = append(out, Rule{Path: path, Rights: all &^ neverRights})
	}
	return append(out, Rule{Path: "/dev", Rights: devRights & all})
}

// Opened are the rights on a regular file that was passed in as a standard
// descriptor, by the flags that it was opened with: it may be opened again through
// /dev/stdin and the like, but not for more than it was passed for. Pipes and
// sockets need no rule.
func Opened(abi, flags int) uint64 {
	switch flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		return reads & Handled(abi)
	case unix.O_WRONLY:
		return writes & Handled(abi)
	default:
		return (reads | writes) & Handled(abi)
	}
}

// Attr is the argument of landlock_create_ruleset(2), and its size on a kernel of
// this ABI. Sockets of other domains by abstract name, and signals to processes of
// other domains, are refused where the kernel can.
func Attr(abi int) (*unix.LandlockRulesetAttr, int) {
	attr := &unix.LandlockRulesetAttr{Handled_access_fs: Handled(abi)}
	if abi < scopesSince {
		return attr, 8 // the rights on files alone, which every ABI has
	}
	attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	return attr, 24
}

// RuleSize is the size of struct landlock_path_beneath_attr, which is packed:
// 8 bytes of rights, then the descriptor, at FDOffset.
const (
	RuleSize = 12
	FDOffset = 8
)

// Encode is a rule of landlock_add_rule(2) on an open path.
func Encode(rights uint64, fd int32) []byte {
	rule := make([]byte, RuleSize)
	binary.NativeEndian.PutUint64(rule, rights)
	binary.NativeEndian.PutUint32(rule[FDOffset:], uint32(fd))
	return rule
}
