package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/sandbox"
	"cloister/sandbox/docker/inside"
)

// newIDSpace makes a user namespace that only serves to map a file owner: in it
// the owner on disk is the payload. It lives as long as its descriptor.
func (d *Driver) newIDSpace(ctx context.Context, owner [2]uint32, u inside.User) (*os.File, error) {
	program, err := d.program(true)
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, inside.RoleHold)
	c.Args[0] = inside.Name
	c.Env = []string{}
	hold, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	one := func(inside uint32, outside int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: int(inside), HostID: outside, Size: 1}}
	}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: one(owner[0], u.UID),
		GidMappings: one(owner[1], u.GID), Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EPERM) { // user_namespaces(7)
			return nil, &sandbox.Unsupported{Guarantee: "file ownership",
				Reason: "no user namespace can be made by which the project's files are the agent's",
				Fix:    "raise /proc/sys/user/max_user_namespaces, or run cloister as an ordinary user"}
		}
		return nil, fmt.Errorf("map file owner: %w", err)
	}
	f, err := os.Open("/proc/" + strconv.Itoa(c.Process.Pid) + "/ns/user")
	err = errors.Join(err, hold.Close())
	_ = c.Wait() // killed with its namespace's last process or ended by itself: nothing depends on it
	if err != nil {
		return nil, fmt.Errorf("map file owner: %w", err)
	}
	return f, nil
}
