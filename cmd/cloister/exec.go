package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/internal/exactjson"
	"cloister/sandbox"
	"cloister/session/filerecord"
	"cloister/session/launch"

	"github.com/spf13/cobra"
)

func (a *app) execCommand() *cobra.Command {
	var env []string
	c := &cobra.Command{
		Use:               "exec [flags] NAME [[--] CMD [ARG...]]",
		Short:             "Run one more command in a cloister, or a shell",
		Args:              cli.Args(1, 1<<20),
		ValidArgsFunction: a.CompleteSessions(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, argv := args[0], args[1:]
			if len(argv) > 0 && argv[0] == "--" {
				argv = argv[1:]
			}
			if len(argv) == 0 {
				argv = []string{"/bin/sh", "-c", "exec bash 2>/dev/null || exec sh"}
			}
			return a.execWrapped(cmd.Context(), name, argv, env)
		},
	}
	// What follows the name belongs to the command.
	c.Flags().SetInterspersed(false)
	c.Flags().StringArrayVarP(&env, "env", "e", nil, "`NAME[=VALUE]` in the command's environment")
	return c
}

// execWrapped runs a command in a session, and ends with its status.
func (a *app) execWrapped(ctx context.Context, name string, argv, env []string) error {
	status, err := a.execIn(ctx, name, argv, env)
	if err != nil || status.ExitCode() == 0 {
		return err
	}
	return &cli.StatusError{Status: status.ExitCode()}
}

// execIn enters a session as its shim described it.
func (a *app) execIn(ctx context.Context, name string, argv, env []string) (sandbox.Status, error) {
	none := sandbox.Status{}
	c, err := a.Reach(ctx)
	if err != nil {
		return none, err
	}
	defer c.Close()
	info, err := cli.Enterable(ctx, c, name)
	if err != nil {
		return none, a.SessionError(ctx, c, name, err)
	}
	d, err := a.driverNamed(info.Isolation)
	if err != nil {
		return none, err
	}
	var spec sandbox.Spec
	if err := exactjson.Unmarshal(info.Exec, &spec); err != nil {
		return none, fmt.Errorf("exec in %s: read its description: %w", info.Name, err)
	}
	spec.Argv = argv
	if spec.Env, err = a.extended(spec.Env, env); err != nil {
		return none, err
	}
	// Before the start, or a Ctrl-C between the two would end this process
	// and leave the command.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH,
		syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	seen := filerecord.New(ctx, func(ctx context.Context, list []api.FileEvent) error {
		return c.Files(ctx, info.Name, list)
	})
	box, err := d.Exec(ctx, sandbox.Handle(info.Handle), spec, sandbox.Wiring{
		Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Watched: seen.Add,
		Ask: func(ctx context.Context, q sandbox.FileQuestion) error {
			return c.AskFile(ctx, info.ID, api.FileQuestion(q))
		},
	})
	if err != nil {
		_, _ = seen.Close() // nothing was seen
		return none, unbuilt("exec", fmt.Errorf("exec in %s: %w", info.Name, err))
	}
	status, err := await(box, signals)
	err = errors.Join(err, box.Close()) // all has been reported now
	if missed, why := seen.Close(); missed > 0 {
		a.Notice("cloister: %s of files and programs were not recorded: %v", cli.Count(int(min(missed, 1<<30)), "event"), why)
	}
	return status, err
}

// await passes signals on until the command has ended.
func await(box sandbox.Box, signals <-chan os.Signal) (sandbox.Status, error) {
	done := make(chan struct{})
	var status sandbox.Status
	var err error
	go func() {
		status, err = box.Wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return status, err
		case sig := <-signals:
			if r, ok := box.(sandbox.Resizer); ok && sig == syscall.SIGWINCH {
				_ = r.Resize() // a terminal that went away has no size; its hang-up follows
				continue
			}
			_ = box.Signal(sig) // an error means that the command has ended: done tells
		}
	}
}

// extended is the inside's environment with what -e names and this terminal's
// own TERM.
func (a *app) extended(inside, named []string) ([]string, error) {
	out := append([]string(nil), inside...)
	set := func(key, value string) {
		out = append(deleteKey(out, key), key+"="+value)
	}
	if t := a.Env.Get("TERM"); t != "" {
		set("TERM", t)
	}
	order := launch.Order{Verb: "exec", Env: named}
	given, err := order.Variables(a.Env)
	if err != nil {
		return nil, err
	}
	for _, g := range given {
		key, value, _ := strings.Cut(g, "=")
		set(key, value)
	}
	return out, nil
}

func deleteKey(env []string, key string) []string {
	out := env[:0]
	for _, e := range env {
		if !strings.HasPrefix(e, key+"=") {
			out = append(out, e)
		}
	}
	return out
}

// driverOf is a driver in another instance.
func driverOf(of *cli.App, isolation string) (sandbox.Driver, error) {
	return (&app{*of}).driverNamed(isolation)
}

// driverNamed finds the driver of an isolation level; auto is the preferred one.
func (a *app) driverNamed(name string) (sandbox.Driver, error) {
	names := []string{"auto"}
	if name == "auto" {
		var why error
		if name, why = a.automatic(); why != nil {
			a.Notice("isolation %s, by root's helper: native has no way here (%v)", name, why)
		}
	}
	for _, c := range a.drivers() {
		if c.Name == name {
			d, err := c.Make()
			if err != nil {
				return nil, &cli.UnbuiltError{Err: err}
			}
			return d, nil
		}
		names = append(names, c.Name)
	}
	if len(names) == 1 {
		return nil, &cli.UnbuiltError{Err: errors.New("no enclosure can be built on this system: cloister needs Linux")}
	}
	return nil, &cli.UnbuiltError{Err: cli.Hinted(fmt.Errorf("isolation %q does not exist on this system", name),
		"there is: "+strings.Join(names, ", "))}
}

// holdBox holds a cloister of an isolation level still.
func (a *app) holdBox(isolation string, h sandbox.Handle) (thaw func() error, err error) {
	d, err := a.driverNamed(isolation)
	if err != nil {
		return nil, err
	}
	return sandbox.Hold(d, h)
}
