// Package judges is the command about root's service that has the kernel judge files and programs
// for users.
//
// The promise: install makes nothing where the kernel would not load what it needs, and uninstall
// removes all that install made.
//
// It judges nothing itself: kernel/lsm/service does. Most readers want [Command].
package judges

import (
	"context"
	"errors"
	"fmt"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"cloister/cmd/cloister/cli"
	"cloister/kernel/lsm"
)

// Command is lsm.
func Command(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "lsm",
		Short: "Have the kernel judge files and programs of users' cloisters, by root's service",
		Long: `Have the kernel judge files and programs by object in cloisters that no root starts
(docs/kernel-policy.md). install, as root, makes a service that does one thing: the kernel judges
a control group that belongs to the caller, by the policy that comes with it. Users need nothing
more; cloister doctor shows it.`,
		Args: cli.Args(0, 0),
	}
	for _, one := range []struct {
		name, short string
		asRoot      bool
		do          func(context.Context, *cli.App) error
	}{
		{"install", "Make the service, and have it run", true, install},
		{"uninstall", "Remove the service; cloisters that it judges end", true, uninstall},
		{"status", "Show the service, and what it judges for you", false, status},
		{"serve", "Be the service, in the foreground", true, serve},
	} {
		var also []string
		if one.name == "uninstall" {
			also = []string{"remove"}
		}
		c.AddCommand(&cobra.Command{
			Use: one.name, Aliases: also, Short: one.short, Args: cli.Args(0, 0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				if one.asRoot && a.UID != 0 {
					return cli.Hinted(fmt.Errorf("lsm %s: only root loads programs into the kernel", one.name),
						"sudo cloister lsm "+one.name)
				}
				err := one.do(cmd.Context(), a)
				if u, ok := errors.AsType[*lsm.Unsupported](err); ok {
					return cli.Hinted(fmt.Errorf("lsm %s: %w", one.name, err), u.Fix)
				}
				return err
			},
		})
	}
	return c
}

// serve is ended by what a service manager and a terminal end programs with.
func serve(ctx context.Context, a *cli.App) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, unix.SIGINT)
	defer stop()
	return run(ctx, a)
}
