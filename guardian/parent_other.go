//go:build !linux

package guardian

// parentOf is a process's parent; no host command runs on this system.
func parentOf(int) (parent int, known bool) { return 0, true }
