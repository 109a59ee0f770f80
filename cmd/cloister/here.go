package main

import (
	"context"
	"slices"
	"time"

	"cloister/api"
	"cloister/config"
)

// here tells where the person is and what to do next: cloister without a word.
// It starts nothing.
func (a *app) here(ctx context.Context) error {
	cfg, _, err := a.Load()
	if err != nil {
		return err
	}
	root, waits := "", false
	if p, err := a.FindProject("."); err == nil {
		root = string(p.Root)
		words, err := a.UnusedProject(p, cfg)
		if err != nil {
			return err
		}
		cfg, waits = words.Config, words.Waits
		a.Line("project    %s", root)
		if branch := p.Git.Branch(); branch != "" {
			a.Line("branch     %s", branch)
		}
	}
	a.Line("agent      %s", cfg.Defaults.Agent)
	live, err := a.Living(ctx)
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
		a.Line("")
		a.listSessions(a.listed(mine), time.Now())
	}
	a.tellReviews()
	a.Line("")
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
	a.Table(append(next, []string{"cloister --help", "everything else"}))
	return nil
}
