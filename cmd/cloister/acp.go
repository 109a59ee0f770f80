package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/session/acp"
	"cloister/session/report"
	"cloister/workspace"
)

// runACP is cloister run --acp: this process is the cloister's shim, and stands between the
// editor on its own streams and the agent inside.
func (a *app) runACP(ctx context.Context, f *runFlags, argv []string) error {
	if f.detach {
		return cli.Usage("", "run: --acp and -d exclude each other: an editor speaks on stdin")
	}
	if err := f.Check(); err != nil {
		return err
	}
	if err := noProject(f); err != nil {
		return err
	}
	summary, err := report.Open(f.Report)
	if err != nil {
		return cli.Usage("", f.Verb+": --report: %v", err)
	}
	agent, err := acp.NewJoined()
	if err != nil {
		return asUnbuilt(fmt.Errorf("run: %w", err))
	}
	defer agent.Close()
	at := *a // the editor's streams are no streams of the cloister
	at.Stdin, at.Stdout = agent.Stdin, agent.Stdout
	s, dirs, err := at.shim(ctx, f, argv)
	if err != nil {
		return asUnbuilt(err)
	}
	defer s.Client.Close()
	if err := noProject(f); err != nil { // by the configuration
		return errors.Join(err, s.Begun.Close())
	}
	s.Signals, s.End = cli.Signals(), agent.End
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // an editor that is gone is an error of a write
	o := acp.Options{
		Root: string(s.Project.Root), Main: string(s.Project.Main),
		Named: func(variable string) bool {
			return slices.ContainsFunc(s.Env, func(v string) bool { return strings.HasPrefix(v, variable+"=") })
		},
		Notice: func(text string) { a.Notice("cloister: %s", text) },
	}
	var view *workspace.View
	s.Planned = func(v *workspace.View) { view = v }
	s.Granted = func(g api.SessionGrant) error {
		o.Record = func(ctx context.Context, u acp.Use) error {
			c, err := a.Reach(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			return c.EditorUse(ctx, g.ID, api.EditorUse{Method: u.Method, Resource: u.Resource, Allow: u.Allowed,
				Reason: u.Reason})
		}
		paths, err := acp.NewPaths(o.Root, view.Protect, view.Held, s.View.Hide)
		o.Closed = paths.Closed
		return err
	}
	s.Running = func() { agent.Start(ctx, o, a.Stdin, a.Stdout) }
	err = at.carryOut(ctx, f, s, dirs, argv, summary, func(error) {})
	return errors.Join(err, agent.Finish())
}

// noProject refuses an agent that would have nothing of what its editor shows.
func noProject(f *runFlags) error {
	if f.Workspace == string(config.WorkspaceNone) || f.Workspace == string(config.WorkspaceGit) {
		return cli.Usage("", "run: --acp needs the project's files: --workspace live, overlay or scratch")
	}
	return nil
}
