// Package acl reads and sets POSIX access lists: who beside owner, group and others may reach
// a file, and what a new one in a folder gets of that (acl(5)).
//
// The promise: a list is carried as the kernel has it, bytes that this package does not
// change. Where a file has one, the group bits of its mode are the list's mask, not what the
// group may: a mode that is given to a file without the list would widen what the group may.
// [Lists.Group] says what it may.
//
// It decides nothing: whose lists are kept, package apply knows.
//
// Most readers want [At].
package acl

import "encoding/binary"

// Lists are what an entry has; empty where its mode says all.
type Lists struct {
	Access  []byte `json:"access,omitempty"`
	Default []byte `json:"default,omitempty"` // of a folder: what new entries in it get
}

// The layout of linux/posix_acl_xattr.h: a version, then entries of tag, permissions and id.
const (
	header  = 4
	entry   = 8
	version = 2

	tagGroup = 0x04
)

// Group is what the list gives the entry's own group, as the bits of a mode; ok is false
// where there is no list, and the mode says so itself.
func (l *Lists) Group() (bits uint32, ok bool) {
	if l == nil || len(l.Access) < header || binary.LittleEndian.Uint32(l.Access) != version {
		return 0, false
	}
	for rest := l.Access[header:]; len(rest) >= entry; rest = rest[entry:] {
		if binary.LittleEndian.Uint16(rest) == tagGroup {
			return uint32(binary.LittleEndian.Uint16(rest[2:])) & 7 << 3, true
		}
	}
	return 0, true
}
