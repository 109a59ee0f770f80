//go:build !linux

package protect

import "golang.org/x/sys/unix"

func keepsTimes(*unix.Statfs_t) bool { return false }
