package taint

import "golang.org/x/sys/unix"

// Info is what a file is, itself and not what a link leads to.
type Info struct {
	ID
	UID, GID uint32
	Mode     uint32 // as stat(2) has it: kind and permissions
}

// Kind is the part of Mode that says what it is: unix.S_IFDIR and its like.
func (i Info) Kind() uint32 { return i.Mode & unix.S_IFMT }
