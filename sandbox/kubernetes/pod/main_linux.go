package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is the program in a pod. Its result is an exit status.
func Main(ctx context.Context, args []string, env func(string) string) int {
	role := append(args, "", "", "")
	var err error
	switch role[0] {
	case RoleGate:
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
		err = runGate(ctx, env(Variable))
		stop()
	case RoleReady:
		_, err = os.Stat(stands)
	case RoleInit:
		err = runInit()
	case RoleRun:
		var r Run
		if r, err = ReadRun(role[1]); err == nil {
			err = r.Execute(ctx)
		}
	case RoleSignal:
		err = runSignal(role[1], role[2])
	case RoleCanary:
		var c Canary
		if c, err = runCanary(); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(c)
		}
	default:
		err = fmt.Errorf("%s: no such role: %q", Name, role[0])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		if role[0] == RoleGate || role[0] == RoleInit {
			_ = os.WriteFile(Termination, []byte(err.Error()), 0o644) // the container's own log has it too
		}
		return 125
	}
	return 0
}
