package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/cmd/cloister/cli"
	"cloister/workspace/review"

	"github.com/spf13/cobra"
)

func (a *app) listCommand() *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the cloisters",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			found := []api.SessionInfo{}
			c, err := a.Reach(cmd.Context())
			switch {
			case errors.Is(err, client.ErrNotRunning):
				a.Notice("the guardian is not running")
			case err != nil:
				return err
			default:
				defer c.Close()
				if found, err = c.Sessions(cmd.Context(), all); err != nil {
					return err
				}
			}
			listed := a.listed(found)
			if asJSON {
				return a.JSON(listed)
			}
			a.listSessions(listed, time.Now())
			a.tellReviews()
			if len(listed) == 0 && err == nil {
				a.Notice("no cloister runs; cloister start begins this project's%s",
					cli.Unless(all, ", cloister list -a shows those that ended"))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVarP(&all, "all", "a", false, "also those that have ended")
	return c
}

// listed is one line of the list.
type listed struct {
	api.SessionInfo
	// LastActivity is when it last wrote; nothing where its output is not kept.
	LastActivity time.Time `json:"last_activity,omitzero"`
}

// listed adds what the logs tell.
func (a *app) listed(found []api.SessionInfo) []listed {
	out := make([]listed, len(found))
	d, err := a.Dirs()
	for i, s := range found {
		out[i].SessionInfo = s
		if err != nil {
			continue
		}
		// A later cloister of the name may have written it anew.
		if info, statErr := os.Stat(outputFile(d, s.Name)); statErr == nil &&
			(s.StoppedAt.IsZero() || !info.ModTime().After(s.StoppedAt)) {
			out[i].LastActivity = info.ModTime().UTC()
		}
	}
	return out
}

func (a *app) listSessions(found []listed, now time.Time) {
	rows := [][]string{{"NAME", "PROJECT", "BRANCH", "AGENT", "ISOLATION", "MODE", "STATE", "UPTIME", "ACTIVE", "PID"}}
	// What few of them have is a column where one has it.
	more := []column{
		{"PORTS", func(s listed) string { return published(s.Publish) }},
		{"ASKS", func(s listed) string { return number(s.PendingAsks) }},
		{"CHANGED", func(s listed) string { return number(len(s.AutorunChanged)) }},
	}
	more = slices.DeleteFunc(more, func(c column) bool {
		return !slices.ContainsFunc(found, func(s listed) bool { return c.value(s) != "" })
	})
	for _, c := range more {
		rows[0] = append(rows[0], c.title)
	}
	for _, s := range found {
		state := string(s.State)
		if s.ExitStatus != nil {
			state += fmt.Sprintf(" (%d)", *s.ExitStatus)
		}
		until, active := now, "-"
		if !s.StoppedAt.IsZero() {
			until = s.StoppedAt
		}
		if !s.LastActivity.IsZero() {
			active = cli.Age(now.Sub(s.LastActivity)) + " ago"
		}
		rows = append(rows, []string{
			s.Name, s.Project, cli.OrDash(s.Branch), cli.OrDash(s.Agent), s.Isolation, s.Mode,
			state, cli.Age(until.Sub(s.CreatedAt)),
			active, fmt.Sprint(s.PID),
		})
		for _, c := range more {
			rows[len(rows)-1] = append(rows[len(rows)-1], cli.OrDash(c.value(s)))
		}
	}
	a.Table(rows)
	for _, s := range found {
		if live := s.State == api.StateStarting || s.State == api.StateRunning; live && gone(s.Path) {
			a.Notice("%s: its folder %s was moved or removed; it works on in what it had", s.Name, s.Path)
		}
		// That a person stopped it is no news to them.
		if s.State == api.StateFailed && s.Reason != "" ||
			s.State == api.StateStopped && s.Reason != "" && s.Reason != cli.StopWord {
			a.Notice("%s: %s", s.Name, s.Reason)
		}
		if s.PendingAsks > 0 {
			a.Notice("%s waits for an answer: cloister approvals list", s.Name)
		}
		if len(s.AutorunChanged) > 0 {
			a.Notice("%s changed what programs of this host may run: %s", s.Name, strings.Join(s.AutorunChanged, ", "))
		}
	}
}

// tellReviews says which projects have changes that a person must decide about.
func (a *app) tellReviews() {
	d, err := a.Dirs()
	if err != nil {
		return
	}
	all, err := review.In(d.State).All()
	if err != nil {
		a.Notice("cloister: %v", err)
	}
	for _, p := range all {
		if n := p.Waiting(); n > 0 {
			a.Notice("%d changed files that programs of this host may run wait in %s: cloister review", n, p.Root)
		}
	}
}

// column is one that the list has where it says something.
type column struct {
	title string
	value func(listed) string
}

// gone tells a folder that is not at its place any more.
func gone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func published(ports []api.Published) string {
	words := make([]string, len(ports))
	for i, p := range ports {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}
