package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/internal/nearest"

	"github.com/spf13/cobra"
)

func (a *app) stopCommand() *cobra.Command {
	var all bool
	var grace time.Duration
	c := &cobra.Command{
		Use:               "stop NAME... | stop --all",
		Short:             "End cloisters",
		ValidArgsFunction: a.completeMore,
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case all && len(names) > 0:
				return wrongWords("", "stop: --all and a name exclude each other")
			case !all && len(names) == 0:
				return wrongWords("cloister list tells the names; --all means every one", "stop: a name is missing")
			}
			c, err := a.reach(cmd.Context())
			if errors.Is(err, client.ErrNotRunning) && all {
				return nil
			}
			if err != nil {
				return err
			}
			defer c.Close()
			if all {
				if names, err = liveNames(cmd.Context(), c); err != nil {
					return err
				}
			}
			var errs []error
			for _, name := range names {
				s, err := stopOne(cmd.Context(), c, name, grace)
				if err != nil {
					errs = append(errs, a.sessionError(cmd.Context(), c, name, err))
					continue
				}
				errs = append(errs, a.endKept(cmd.Context(), s.Name))
				a.line("%s", s.Name)
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "every cloister")
	c.Flags().DurationVarP(&grace, "time", "t", 0, "how long the command may take to end by itself (default 10s)")
	return c
}

// stopWord is the reason that the record and the list have for what a person stopped.
const stopWord = "cloister stop"

// comeBack is how long a session may take to come back to a guardian that has
// just started. It looks for one every 100 ms.
const comeBack = 5 * time.Second

// stopOne ends a session, one that is on its way back to the guardian as well.
func stopOne(ctx context.Context, c *client.Client, name string, grace time.Duration) (api.SessionInfo, error) {
	deadline := time.NewTimer(comeBack)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := c.StopSession(ctx, name, stopWord, grace)
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusConflict {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, err
		case <-deadline.C:
			return s, err
		case <-tick.C:
		}
	}
}

// endKept waits until a stopped cloister has let go of its kept workspace: whoever
// stopped it restores or discards it next.
func (a *app) endKept(ctx context.Context, name string) error {
	s, err := a.keptStore()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, comeBack)
	defer cancel()
	if err := s.Ended(ctx, name); err != nil {
		return fmt.Errorf("stop %s: wait for its workspace: %w", name, err)
	}
	return nil
}

func liveNames(ctx context.Context, c *client.Client) ([]string, error) {
	found, err := c.Sessions(ctx, false)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, s := range found {
		names = append(names, s.Name)
	}
	return names, nil
}

// sessionError adds the nearest name to the error for a name that is none.
func (a *app) sessionError(ctx context.Context, c *client.Client, name string, err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		return err
	}
	names, listErr := liveNames(ctx, c)
	if near := nearest.Word(name, names); listErr == nil && near != "" {
		return hinted(err, "did you mean "+near+"?")
	}
	return err
}
