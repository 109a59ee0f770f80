package cli

import (
	"context"
	"os/exec"

	"cloister/host/resolve"
)

// Program is a command of the host that this command starts for the person: found where
// no payload could have put it, and with a PATH of such folders for what it starts itself.
func (a *App) Program(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	_, host, err := a.DirsAndResolver()
	if err != nil {
		return nil, err
	}
	var env []string
	for name, value := range a.Env {
		env = append(env, name+"="+value)
	}
	env = host.Environment(env)
	p, err := host.Program(name, resolve.Lookup(env))
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, p.Path, args...)
	c.Args[0], c.Env = name, env
	return c, nil
}
