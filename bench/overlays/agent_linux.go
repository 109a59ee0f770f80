package overlays

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"cloister/internal/freeze"
	"cloister/state/store"
)

// agent starts what is held still: a PID namespace with ten processes that wait and one
// that is at work.
func agent(ctx context.Context) (still store.Freeze, end func() error, err error) {
	const script = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; (while :; do :; done) & echo; wait"
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("start what is held still: %w", err)
	}
	end = func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		return err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		_ = end()
		return nil, nil, fmt.Errorf("start what is held still: %w", err)
	}
	return func() (func() error, error) { return freeze.Processes(cmd.Process.Pid) }, end, nil
}
