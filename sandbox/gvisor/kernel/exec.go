package main

import (
	"fmt"
	"os"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/sentry/kernel/auth"
	"gvisor.dev/gvisor/runsc/specutils"
)

// execArgs is a process in the words of the sandbox.
func execArgs(p *specs.Process, files map[int]*os.File) (*control.ExecArgs, error) {
	caps, err := specutils.Capabilities(false, p.Capabilities)
	if err != nil {
		return nil, fmt.Errorf("capabilities: %w", err)
	}
	files[0], files[1], files[2] = os.Stdin, os.Stdout, os.Stderr
	return &control.ExecArgs{
		Argv: p.Args, Envv: p.Env, WorkingDirectory: p.Cwd, KUID: auth.KUID(p.User.UID), KGID: auth.KGID(p.User.GID),
		Capabilities: caps, StdioIsPty: p.Terminal, NoNewPrivileges: p.NoNewPrivileges, SupportTTYs: true,
		FilePayload: control.NewFilePayload(files, nil),
	}, nil
}
