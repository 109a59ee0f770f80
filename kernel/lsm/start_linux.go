package lsm

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

// startIn starts a program as a process of a control group, or of this process's own for
// "", and ends it at once if it starts.
func startIn(ctx context.Context, group, program string) error {
	c := exec.CommandContext(ctx, program)
	c.Env = []string{}
	if group != "" {
		dir, err := os.Open(group)
		if err != nil {
			return err
		}
		defer dir.Close()
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	}
	if err := c.Start(); err != nil {
		return err
	}
	_ = c.Process.Kill()
	return c.Wait()
}
