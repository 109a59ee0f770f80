package reaper

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Groups are the control groups at the top of each hierarchy with such names.
func Groups(pattern string) []string {
	one, _ := filepath.Glob("/sys/fs/cgroup/" + pattern)
	two, _ := filepath.Glob("/sys/fs/cgroup/*/" + pattern)
	return append(one, two...)
}

// RemoveGroups removes those with such names that were not there before.
func RemoveGroups(pattern string, before []string) {
	for _, top := range Groups(pattern) {
		if slices.Contains(before, top) {
			continue
		}
		all := append(Below(top, 9, ""), top)
		slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
		for _, dir := range all {
			if info, err := os.Lstat(dir); err == nil && info.IsDir() {
				_ = syscall.Rmdir(dir) // what stays is found at the end
			}
		}
	}
}
