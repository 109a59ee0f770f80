package judges

import (
	"context"
	"fmt"
	"os"

	"cloister/cmd/cloister/cli"
	"cloister/kernel/lsm/service"
	"cloister/sandbox/judge"
)

func setup(a *cli.App) service.Setup {
	run := func(ctx context.Context, name string, args ...string) error {
		c, err := a.Program(ctx, name, args...)
		if err != nil {
			return err
		}
		if text, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("lsm: %s: %w: %s", name, err, text)
		}
		return nil
	}
	return service.Setup{Self: "/proc/self/exe", Say: a.Line, Run: run}
}

func install(ctx context.Context, a *cli.App) error   { return setup(a).Install(ctx) }
func uninstall(ctx context.Context, a *cli.App) error { return setup(a).Uninstall(ctx) }
func run(ctx context.Context, a *cli.App) error       { return service.Run(ctx, a.Stderr) }

// status tells of the unit and of the service, which this process asks.
func status(_ context.Context, a *cli.App) error {
	made := "not installed"
	if _, err := os.Lstat(service.Unit); err == nil {
		made = service.Unit
	}
	a.Line("unit     %s", made)
	if err := service.Available(); err != nil {
		a.Line("service  not there: %v", err)
		return err
	}
	a.Line("service  %s", service.Socket)
	if err := judge.Available(); err != nil {
		return err
	}
	a.Line("judges   files and programs of your cloisters, by object")
	return nil
}
