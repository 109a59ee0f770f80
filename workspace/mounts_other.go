//go:build !linux

package workspace

// mountsIn knows no mounts: other systems have no cloister on the host's own files.
func mountsIn([]string) ([]string, error) { return nil, nil }
