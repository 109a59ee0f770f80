package main

import (
	"errors"
	"fmt"
	"time"

	"cloister/api"
	"cloister/client"

	"github.com/spf13/cobra"
)

func (a *app) listCommand() *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the cloisters",
		Args:    counted(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := []api.SessionInfo{}
			c, err := a.dial(cmd.Context())
			switch {
			case errors.Is(err, client.ErrNotRunning):
				a.notice("the guardian is not running")
			case err != nil:
				return err
			default:
				defer c.Close()
				if found, err = c.Sessions(cmd.Context(), all); err != nil {
					return err
				}
			}
			if asJSON {
				return a.json(found)
			}
			if len(found) > 0 {
				a.listSessions(found, time.Now())
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVarP(&all, "all", "a", false, "also those that have ended")
	return c
}

func (a *app) listSessions(found []api.SessionInfo, now time.Time) {
	rows := [][]string{{"NAME", "PROJECT", "ISOLATION", "MODE", "STATE", "AGE", "PID"}}
	for _, s := range found {
		state := string(s.State)
		if s.ExitStatus != nil {
			state += fmt.Sprintf(" (%d)", *s.ExitStatus)
		}
		rows = append(rows, []string{
			s.Name, s.Project, s.Isolation, s.Mode, state, age(now.Sub(s.CreatedAt)), fmt.Sprint(s.PID),
		})
	}
	a.table(rows)
}

// age writes a length of time in its largest unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
