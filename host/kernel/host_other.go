//go:build !linux

package kernel

import "os"

// ThisHost is the running one.
func ThisHost() Host {
	return Host{FS: os.DirFS("/"), Release: "0.0", Root: os.Geteuid() == 0}
}
