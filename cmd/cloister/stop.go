package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloister/api/client"
	"cloister/cmd/cloister/cli"

	"github.com/spf13/cobra"
)

func (a *app) stopCommand() *cobra.Command {
	var all bool
	var grace time.Duration
	c := &cobra.Command{
		Use:               "stop NAME... | stop --all",
		Short:             "End cloisters",
		ValidArgsFunction: a.CompleteMore,
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case all && len(names) > 0:
				return cli.Usage("", "stop: --all and a name exclude each other")
			case !all && len(names) == 0:
				return cli.Usage("cloister list tells the names; --all means every one", "stop: a name is missing")
			}
			c, err := a.Reach(cmd.Context())
			if errors.Is(err, client.ErrNotRunning) && all {
				return nil
			}
			if err != nil {
				return err
			}
			defer c.Close()
			if all {
				if names, err = cli.LiveNames(cmd.Context(), c); err != nil {
					return err
				}
			}
			var errs []error
			for _, name := range names {
				s, err := cli.StopOne(cmd.Context(), c, name, grace)
				if err != nil {
					errs = append(errs, a.SessionError(cmd.Context(), c, name, err))
					continue
				}
				errs = append(errs, a.endKept(cmd.Context(), s.Name))
				a.Line("%s", s.Name)
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every cloister")
	c.Flags().DurationVarP(&grace, "time", "t", 0, "how long the command may take to end by itself (default 10s)")
	return c
}

// endKept waits until a stopped cloister has let go of its kept workspace: whoever
// stopped it restores or discards it next.
func (a *app) endKept(ctx context.Context, name string) error {
	s, err := a.overlays().KeptStore()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cli.ComeBack)
	defer cancel()
	if err := s.Ended(ctx, name); err != nil {
		return fmt.Errorf("stop %s: wait for its workspace: %w", name, err)
	}
	return nil
}
