package refuse

import (
	"strings"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/docker/inside"
)

// Explained adds what would help to what the gate says.
func Explained(f *inside.Failure) error {
	switch {
	case strings.Contains(f.Text, inside.LayOverlay):
		return &sandbox.Unsupported{
			Guarantee: "overlay workspace",
			Reason:    "start docker: " + f.Text,
			Fix: "the engine's kernel must have overlayfs (modprobe overlay), and Cloister's data folder and the project " +
				"lie on file systems that it can lie on: ext4, xfs, btrfs or tmpfs, not itself an overlay; or use --workspace live",
		}
	case strings.Contains(f.Text, "show folders") && f.Errno == int(unix.EINVAL):
		return &sandbox.Unsupported{
			Guarantee: "file ownership",
			Reason:    f.Text,
			Fix: "the file system under it has no id-mapped mounts (Linux 5.12 and ext4, xfs, btrfs, tmpfs have): " +
				"run cloister as an ordinary user there",
		}
	case f.Errno == int(unix.EPERM):
		return &sandbox.Unsupported{
			Guarantee: "mount view",
			Reason:    f.Text,
			Fix:       "a security module or the engine's configuration keeps the gate from its work: see cloister doctor",
		}
	}
	return f
}
