//go:build !linux

package realpath

import "path/filepath"

// Of is path without symbolic links. path is absolute.
func Of(path string) (string, error) { return filepath.EvalSymlinks(path) }
