package native

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
)

// explain puts a child's report into words.
func (p *program) explain(r report, s sandbox.Spec) error {
	list := p.setup[partView]
	switch r.Kind {
	case reportSetup:
		list = p.setup[r.Value]
	case reportPayload:
		list = p.payload
	case reportAfter:
		list = p.afterFork
	case reportExec:
		errno := unix.Errno(r.Errno)
		missing := errno == 0 || errno == unix.ENOENT || errno == unix.ENOTDIR
		var err error = errno
		if s.Permits.Programs && errno == unix.EACCES {
			err = fmt.Errorf("%w: statements say which programs are permitted, "+
				"and what else was tried is in cloister audit tail "+
				"--kind file.denied", errno)
		}
		return &sandbox.ExecError{Command: s.Argv[0], NotFound: missing, Err: err}
	}
	name, errno := "fork", unix.Errno(r.Errno)
	var o op
	if r.Index >= 0 && int(r.Index) < len(list) {
		o = list[r.Index]
		name = o.name
	}
	if o.expect == failWith && errno == 0 {
		return fmt.Errorf("start native: %s: it was not", name)
	}
	if errno == 0 {
		return fmt.Errorf("start native: %s: unexpected answer", name)
	}
	return stepError(name, errno)
}

// stepError adds the fix to the failures that a host's settings explain.
func stepError(name string, errno unix.Errno) error {
	err := fmt.Errorf("start native: %s: %w", name, errno)
	switch name {
	case "hold an overlay's folder":
		return &sandbox.Unsupported{Guarantee: "overlay workspace", Reason: err.Error(),
			Fix: "for a kept overlay root's helper needs Linux 6.13: run with --workspace live"}
	case "open overlay of workspace", "create overlay of workspace", "mount overlay of workspace":
		return &sandbox.Unsupported{
			Guarantee: "overlay workspace", Reason: err.Error(),
			Fix: "the kernel must offer overlayfs to user namespaces (modprobe overlay), and the project lie on a file system " +
				"that it can lie on: run with --workspace live",
		}
	case "open overlay of image", "create overlay of image", "mount overlay of image":
		return &sandbox.Unsupported{
			Guarantee: "system from an image", Reason: err.Error(),
			Fix: "the kernel must offer overlayfs to user namespaces (modprobe overlay), on a file system that it can lie on: " +
				"point XDG_DATA_HOME elsewhere, or run without --image",
		}
	}
	if errno == unix.EPERM || errno == unix.EACCES {
		switch name {
		case "make mounts private", "create tmpfs", "mount tmpfs":
			return &sandbox.Unsupported{Guarantee: "mount view", Reason: err.Error(),
				Fix: "a security module keeps user namespaces from mounting: see cloister doctor"}
		case "create proc", "mount proc":
			return &sandbox.Unsupported{Guarantee: "process isolation", Reason: err.Error(),
				Fix: "the host's /proc is masked, as in a container: " +
					"start the container with --security-opt systempaths=unconfined"}
		}
	}
	return err
}

// namespaceError says why the kernel gave no namespaces.
func namespaceError(errno syscall.Errno) error {
	u := &sandbox.Unsupported{Guarantee: "namespaces", Reason: "start native: create namespaces: " + errno.Error(),
		Fix: "see cloister doctor"}
	switch errno {
	case unix.EPERM:
		u.Fix = "let this user make user namespaces: sysctl kernel.unprivileged_userns_clone=1; on Ubuntu 24.04 also " +
			"kernel.apparmor_restrict_unprivileged_userns=0 or a profile for cloister (cloister doctor)"
	case unix.ENOSPC, unix.EUSERS:
		u.Fix = "raise user.max_user_namespaces (and max_net_namespaces, max_mnt_namespaces)"
	}
	if os.Geteuid() != 0 {
		u.Fix += "; or leave it so, and have root's helper make namespaces: sudo cloister setup local-user"
	}
	return u
}
