package cli

import (
	"context"
	"os/exec"
	"path/filepath"

	"cloister/host/resolve"
	"cloister/internal/xdg"
	"cloister/session/launch"
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

// Self is this program, to be started as a shim by whoever has these folders.
func (a *App) Self(program string, dirs xdg.Dirs) launch.Self {
	words := []string{"cloister", "shim"}
	if a.Debug {
		words = append(words, "--debug")
	}
	if a.Quiet {
		words = append(words, "--quiet")
	}
	return launch.Self{Path: program, Args: words, Logs: filepath.Join(dirs.State, "logs")}
}
