package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/mcp/serve"
	"cloister/sandbox"
	"cloister/session"
	"cloister/session/inside"
	"cloister/session/launch"
	"cloister/session/report"

	"github.com/spf13/cobra"
)

// serveName is the cloister's own command: it does nothing but end with its input, which
// is this process's to close.
const serveName = "cat"

func (a *app) mcpServe() *cobra.Command {
	f := &runFlags{Order: launch.Order{Verb: "mcp serve"}}
	c := &cobra.Command{
		Use: "serve [flags]", Short: "Be an MCP server on stdin and stdout that gives its client one cloister",
		Long: "Be an MCP server on stdin and stdout. Its client, an agent or an editor, gets one cloister of the\n" +
			"project with tools to run commands, read, write and list files, and publish ports; it ends with\n" +
			"the client. Policy, questions and record are those of any cloister (docs/mcp-server.md).",
		Example: "  claude mcp add cloister -- cloister mcp serve -C ~/src/project\n" +
			"  cloister mcp serve --allow registry.npmjs.org",
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serveMCP(cmd.Context(), f) },
	}
	a.orderFlags(&f.Order, c,
		"the agent that the cloister is for: it gets what that one needs; list, policy and audit name it")
	return c
}

// serveMCP is cloister mcp serve: this process is the cloister's shim, and its client's
// server beside it.
func (a *app) serveMCP(ctx context.Context, f *runFlags) error {
	if err := f.Check(); err != nil {
		return err
	}
	summary, err := report.Open(f.Report)
	if err != nil {
		return cli.Usage("", f.Verb+": --report: %v", err)
	}
	idle, hold, err := os.Pipe()
	if err != nil {
		return &cli.UnbuiltError{Err: fmt.Errorf("mcp serve: %w", err)}
	}
	defer hold.Close()
	defer idle.Close()
	at := *a // the client's streams are no streams of the cloister
	at.Stdin, at.Stdout = idle, a.Stderr
	s, dirs, err := at.shim(ctx, f, []string{serveName})
	if err != nil {
		return asUnbuilt(err)
	}
	defer s.Client.Close()
	s.Signals = cli.Signals()
	d := &served{app: a}
	s.Granted = func(g api.SessionGrant) error {
		d.name, d.id = g.Name, g.ID
		return nil
	}
	serving, over := context.WithCancel(ctx)
	done := make(chan error, 1)
	began := false
	s.Box = func(box sandbox.Box, _ sandbox.Spec) { d.box = box }
	s.Running = func() {
		began = true
		go func() {
			err := d.serve(serving, s)
			_ = hold.Close() // the cloister's command ends, and with it all
			done <- err
		}()
	}
	err = at.carryOut(ctx, f, s, dirs, []string{serveName}, summary, func(error) {})
	over()
	if began {
		err = errors.Join(err, <-done)
	}
	return err
}

// served is the cloister of one client.
type served struct {
	app      *app
	name, id string
	box      sandbox.Box
	runner   *inside.Runner
	ports    *session.Ports
}

// serve serves the client until it goes or the cloister ends.
func (d *served) serve(ctx context.Context, s *session.Shim) (err error) {
	info, err := cli.Enterable(ctx, s.Client, d.id)
	if err != nil {
		return err
	}
	driver, err := d.app.driverNamed(info.Isolation)
	if err != nil {
		return err
	}
	if d.runner, err = inside.New(driver, info); err != nil {
		return err
	}
	d.runner.Record(ctx, func(ctx context.Context, list []api.FileEvent) error {
		c, err := d.app.Reach(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Files(ctx, d.id, list)
	})
	d.runner.Ask(func(ctx context.Context, q api.FileQuestion) error {
		c, err := d.app.Reach(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.AskFile(ctx, d.id, q)
	})
	defer func() { err = errors.Join(err, d.runner.Close()) }()
	if d.ports, err = session.NewPorts(d.box); err != nil {
		return err
	}
	defer d.ports.Close()
	return serve.Run(ctx, serve.Options{Version: cli.Version(), Cloister: d, Judge: d.judge}, d.app.Stdin, d.app.Stdout)
}

// judge has a call decided and recorded by the guardian, whichever that is by now.
func (d *served) judge(ctx context.Context, call serve.Call) (string, error) {
	c, err := d.app.Reach(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close()
	v, err := c.Tool(ctx, d.id, api.ToolCall{Tool: call.Tool, Arguments: call.Arguments, Command: call.Command})
	if err != nil || v.Allow {
		return "", err
	}
	lines := []string{v.Reason}
	for _, h := range v.Hints {
		lines = append(lines, "hint: "+h)
	}
	return strings.Join(lines, "\n"), nil
}

func (d *served) Dir() string { return d.runner.Dir() }

func (d *served) Run(ctx context.Context, c serve.Command) (int, error) {
	status, err := d.runner.Run(ctx, inside.Command(c))
	if missing, ok := errors.AsType[*sandbox.ExecError](err); ok {
		return exitStatus(err), refusedInside(c, missing)
	}
	return status.ExitCode(), err
}

// refusedInside tells a client why a command could not be executed, in its own output.
func refusedInside(c serve.Command, why *sandbox.ExecError) error {
	if c.Stderr == nil {
		return why
	}
	_, err := fmt.Fprintln(c.Stderr, why)
	return err
}

func (d *served) Publish(ctx context.Context, port, host uint16) (uint16, error) {
	// The connections live longer than the call that asked for the port.
	p, err := d.ports.Publish(context.WithoutCancel(ctx), api.Published{HostPort: host, Port: port})
	return p.HostPort, err
}

func (d *served) Ports() []serve.Port {
	var out []serve.Port
	for _, p := range d.ports.List() {
		out = append(out, serve.Port{Port: p.Port, HostPort: p.HostPort})
	}
	return out
}
