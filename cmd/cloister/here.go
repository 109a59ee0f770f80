package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"cloister/api"
	"cloister/api/client"
	"cloister/config"
)

// here tells where the person is and what to do next: cloister without a word.
// It starts nothing.
func (a *app) here(ctx context.Context) error {
	cfg, _, err := a.load()
	if err != nil {
		return err
	}
	root, waits := "", false
	if p, err := a.findProject("."); err == nil {
		root = string(p.Root)
		words, err := a.unused(p, cfg)
		if err != nil {
			return err
		}
		cfg, waits = words.Config, words.Waits
		a.line("project    %s", root)
		if branch := p.Git.Branch(); branch != "" {
			a.line("branch     %s", branch)
		}
	}
	a.line("agent      %s", cfg.Defaults.Agent)
	live, err := a.living(ctx)
	if err != nil {
		return err
	}
	var mine []api.SessionInfo
	for _, s := range live {
		if s.Path == root {
			mine = append(mine, s)
		}
	}
	if len(mine) > 0 {
		a.line("")
		a.listSessions(a.listed(mine), time.Now())
	}
	a.tellReviews()
	a.line("")
	next := [][]string{}
	if waits {
		next = append(next, []string{"cloister project trust", "see what its " + config.ProjectFile + " asks for, and agree"})
	}
	for _, s := range mine {
		if s.Terminal {
			next = append(next, []string{"cloister attach " + s.Name, "see it, and type into it"})
		}
	}
	if !slices.ContainsFunc(mine, func(s api.SessionInfo) bool { return s.Terminal }) {
		next = append(next, []string{"cloister start", "start " + cfg.Defaults.Agent + " here"})
	}
	next = append(next, []string{"cloister run -- CMD", "run one command"})
	if len(live) > len(mine) {
		next = append(next, []string{"cloister list", "the cloisters of other folders too"})
	}
	a.table(append(next, []string{"cloister --help", "everything else"}))
	return nil
}

// living are the sessions that go on; none where there is no guardian.
func (a *app) living(ctx context.Context) ([]api.SessionInfo, error) {
	c, err := a.reach(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Sessions(ctx, false)
}
