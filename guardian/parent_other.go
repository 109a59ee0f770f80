//go:build !linux

package guardian

// parentOf is a process's parent; no host command runs on this system.
func parentOf(int) int { return 0 }
