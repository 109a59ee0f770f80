package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/devcontainers"
	"cloister/internal/ownfile"
	"cloister/internal/xdg"
	"cloister/session/beside"
	"cloister/state/store"
	"cloister/workspace/homes"

	"github.com/spf13/cobra"
)

// oldLog is when the log of a cloister that has ended is in the way.
const oldLog = 30 * 24 * time.Hour

func (a *app) pruneCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "prune [--dry-run]",
		Short: "Remove what nothing needs any more",
		Long: `Remove what nothing needs any more: private homes of projects whose folders are gone,
volumes of their devcontainers' services, features of registries, caches in the homes of
projects in which no cloister lives, layers that no kept workspace or checkpoint uses, and
logs of cloisters that ended a month ago. Homes, credentials, settings, kept workspaces and
the record stay.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.prune(cmd.Context(), dry) },
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "list only")
	return c
}

// rubbish is one thing that prune removes.
type rubbish struct {
	bytes  int64
	what   string
	remove func() error
}

func (a *app) prune(ctx context.Context, dry bool) error {
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	live, err := a.Living(ctx)
	if err != nil {
		return err
	}
	list, err := a.homeRubbish(d, live)
	if err != nil {
		return err
	}
	list = append(list, oldLogs(d, live, time.Now())...)
	for _, more := range []func(xdg.Dirs) ([]rubbish, error){layerRubbish, serviceRubbish} {
		some, err := more(d)
		if err != nil {
			return err
		}
		list = append(list, some...)
	}
	var sum int64
	var errs []error
	rows := [][]string{}
	for _, r := range list {
		if !dry {
			if err := r.remove(); err != nil {
				errs = append(errs, fmt.Errorf("prune: %w", err))
				continue
			}
		}
		sum += r.bytes
		rows = append(rows, []string{cli.SizeText(r.bytes), r.what})
	}
	a.Table(rows)
	switch {
	case len(list) == 0:
		a.Notice("nothing is in the way")
	case dry:
		a.Notice("%s would be free; cloister prune removes it", cli.SizeText(sum))
	default:
		a.Notice("%s is free", cli.SizeText(sum))
	}
	return errors.Join(errs...)
}

// privateHomes are all homes, with the projects that are known.
func (a *app) privateHomes(d xdg.Dirs) ([]homes.Home, error) {
	known, err := a.Projects(d)
	if err != nil {
		return nil, err
	}
	var roots []string
	for _, k := range known {
		roots = append(roots, k.Root)
	}
	return homes.List(d.Data, roots)
}

func (a *app) homeRubbish(d xdg.Dirs, live []api.SessionInfo) ([]rubbish, error) {
	all, err := a.privateHomes(d)
	if err != nil {
		return nil, err
	}
	var out []rubbish
	for _, h := range all {
		if h.Project == "" || slices.ContainsFunc(live, func(s api.SessionInfo) bool { return s.Project == h.Project }) {
			continue // its project is not known, or it is in use
		}
		if _, err := os.Lstat(h.Project); errors.Is(err, fs.ErrNotExist) {
			out = append(out, rubbish{homes.Size(h.Dir), "the private home of " + h.Project + ", which is gone", h.Remove})
			continue
		}
		for _, rel := range h.Caches() {
			out = append(out, rubbish{
				homes.Size(filepath.Join(h.Dir, rel)), "~/" + rel + " in the private home of " + h.Project,
				func() error { return h.RemoveCache(rel) },
			})
		}
	}
	return out, nil
}

// serviceRubbish are volumes of services whose project is gone, and the features of
// registries.
func serviceRubbish(d xdg.Dirs) (out []rubbish, err error) {
	gone, err := beside.Forgotten(d.Data)
	for _, g := range gone {
		out = append(out, rubbish{g.Bytes(), "the volumes of the services of " + g.Project + ", which is gone", g.Remove})
	}
	if n := devcontainers.Features(d).Size(); n > 0 {
		out = append(out, rubbish{n, "features of registries, which a build fetches again", devcontainers.Features(d).Clear})
	}
	return out, err
}

// layerRubbish are the layers of workspaces and checkpoints that are no more.
func layerRubbish(d xdg.Dirs) ([]rubbish, error) {
	kept, err := store.Open(d.Data, "")
	if err != nil {
		return nil, err
	}
	g, err := kept.Collect(true)
	if err != nil || g.Layers == 0 {
		return nil, err
	}
	return []rubbish{{g.Bytes, fmt.Sprintf("%d layers that no workspace needs", g.Layers), func() error {
		_, err := kept.Collect(false)
		return err
	}}}, nil
}

// oldLogs are those of cloisters that ended long ago.
func oldLogs(d xdg.Dirs, live []api.SessionInfo, now time.Time) []rubbish {
	var out []rubbish
	if ownfile.Folder(filepath.Join(d.State, "logs")) != nil {
		return nil // none, or a link to the logs of others
	}
	found, _ := filepath.Glob(filepath.Join(d.State, "logs", "*.log")) // the pattern is sound
	for _, name := range found {
		session := strings.TrimSuffix(filepath.Base(name), ".log")
		info, err := os.Lstat(name)
		if err != nil || name == cli.LogFile(d) || now.Sub(info.ModTime()) < oldLog ||
			slices.ContainsFunc(live, func(s api.SessionInfo) bool { return s.Name == session }) {
			continue
		}
		out = append(out, rubbish{info.Size(), "the log of " + session, func() error { return os.Remove(name) }})
	}
	return out
}
