//go:build !linux

package process

// ParentOf is a process's parent; no host command runs on this system.
func ParentOf(int) (parent int, known bool) { return 0, true }
