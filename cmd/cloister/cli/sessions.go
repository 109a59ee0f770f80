package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/internal/nearest"

	"github.com/spf13/cobra"
)

// CompleteSessions offers the names of sessions.
func (a *App) CompleteSessions(all bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.SessionNames(cmd.Context(), all), cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteMore offers the names of sessions that were not typed yet.
func (a *App) CompleteMore(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names := slices.DeleteFunc(a.SessionNames(cmd.Context(), false), func(s string) bool {
		name, _, _ := strings.Cut(s, "\t")
		return slices.Contains(args, name)
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *App) SessionNames(ctx context.Context, all bool) []string {
	c, err := a.Dial(ctx)
	if err != nil {
		return nil // nothing to offer; Tab is no place for errors
	}
	defer c.Close()
	sessions, err := c.Sessions(ctx, all)
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(sessions))
	for _, s := range sessions {
		names = append(names, s.Name+"\t"+s.Project)
	}
	return names
}

// StopWord is the reason that the record and the list have for what a person stopped.
const StopWord = "cloister stop"

// StopOne ends a session, one that is on its way back to the guardian as well.
func StopOne(ctx context.Context, c *client.Client, name string, grace time.Duration) (api.SessionInfo, error) {
	deadline := time.NewTimer(ComeBack)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := c.StopSession(ctx, name, StopWord, grace)
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

func LiveNames(ctx context.Context, c *client.Client) ([]string, error) {
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

// SessionError adds the nearest name to the error for a name that is none.
func (a *App) SessionError(ctx context.Context, c *client.Client, name string, err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		return err
	}
	names, listErr := LiveNames(ctx, c)
	if near := nearest.Word(name, names); listErr == nil && near != "" {
		return Hinted(err, "did you mean "+near+"?")
	}
	return err
}

// Enterable finds a session and waits for one that is about to run, or on its
// way back to the guardian: what its shim deposits for exec comes a moment after
// its name.
func Enterable(ctx context.Context, c *client.Client, name string) (api.ExecInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, ComeBack)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := c.Session(ctx, name)
		switch {
		case err != nil:
			return info, err
		case info.State == api.StateRunning && len(info.Exec) > 0:
			return info, nil
		case info.State != api.StateRunning && info.State != api.StateStarting:
			return info, Hinted(fmt.Errorf("exec in %s: it is %s", info.Name, info.State),
				"cloister list shows those that run")
		}
		select {
		case <-ctx.Done():
			return info, fmt.Errorf("exec in %s: its shim has not said yet how to enter it", info.Name)
		case <-tick.C:
		}
	}
}
