// Package realpath resolves the symbolic links of a path in one walk of the
// kernel's.
//
// The promise: Of gives what [filepath.EvalSymlinks] gives for an absolute path,
// for a third of the time: it opens the path and asks where that is. Where the
// kernel cannot tell (no /proc, a file without a name) it walks by itself.
//
// In does so for a path inside of a box, and refuses what it cannot follow to its end.
//
// It does not hold the path in place: what it gives may change at once.
//
// Most readers want [Of].
package realpath

import "strings"

// Inside reports whether path is folder or lies below it, by their names alone: both
// are absolute, clean and without symbolic links.
func Inside(path, folder string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder+"/")
}
