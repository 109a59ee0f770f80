package projects

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/config"
	"cloister/internal/realpath"
	"cloister/internal/termsafe"
	"cloister/workspace/clean"
	"cloister/workspace/projects"
	"cloister/workspace/review"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *Commands) projectClean() *cobra.Command {
	var dry, yes bool
	c := &cobra.Command{
		Use:   "clean [NAME|DIR]",
		Short: "Remove what an agent left that makes a start fail or leads git astray",
		Long: `List what lies in a project that no start can protect, and what git of the host would
take for a second repository or a session left in .git, and remove it. Each path is
shown first. On a terminal it asks; without one it needs --yes. No link is followed,
and nothing outside the project is touched.`,
		Args: cli.Args(0, 1), ValidArgsFunction: a.CompleteProjects,
		RunE: func(cmd *cobra.Command, args []string) error { return a.cleanProject(cmd.Context(), args, dry, yes) },
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "list only")
	c.Flags().BoolVar(&yes, "yes", false, "remove without a question")
	return c
}

func (a *Commands) cleanProject(ctx context.Context, args []string, dry, yes bool) error {
	_, k, p, err := a.named(args)
	if err != nil {
		return err
	}
	if p.Root == "" {
		return fmt.Errorf("clean project %s: its folder is gone", k.Name)
	}
	live, err := a.Living(ctx)
	if err != nil {
		return err
	}
	for _, s := range live {
		if s.Project == k.Root || s.Path == string(p.Root) {
			return cli.Hinted(fmt.Errorf("clean project %s: the cloister %s lives in it", k.Name, s.Name),
				"stop it first: cloister stop "+s.Name)
		}
	}
	cfg, _, err := a.Load()
	if err != nil {
		return err
	}
	root := string(p.Root)
	at := clean.Project{Root: root}
	words, err := a.UnusedProject(p, cfg)
	if bad, is := errors.AsType[*projects.BadProposal](err); is {
		at.Bad = map[string]string{config.ProjectFile: "no session starts with it: " + bad.Error()}
	} else if err != nil {
		return err
	} else {
		cfg = words.Config
	}
	at.Hide, at.Protect = cfg.Filesystem.Hide, cfg.Filesystem.Protect
	if p.Git != nil && p.Git.Common != root && realpath.Inside(p.Git.Common, root) {
		if at.Git, err = filepath.Rel(root, p.Git.Common); err != nil {
			return fmt.Errorf("clean project: %w", err)
		}
	}
	items, err := clean.Find(at)
	if err != nil {
		return err
	}
	return a.cleanItems(ctx, root, items, dry, yes)
}

func (a *Commands) cleanItems(ctx context.Context, root string, items []clean.Item, dry, yes bool) error {
	remove, left := []clean.Item{}, 0
	for _, i := range items {
		name := termsafe.Text(i.Path)
		if i.Dir {
			name += "/ and all below it"
		}
		if i.Keep != "" {
			left++
			a.Line("keep    %s: %s (not removed: %s)", name, termsafe.Text(i.Why), termsafe.Text(i.Keep))
			continue
		}
		remove = append(remove, i)
		a.Line("remove  %s: %s", name, termsafe.Text(i.Why))
	}
	if err := a.Out.Flush(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	switch {
	case len(items) == 0:
		a.Notice("nothing is to be removed")
		return nil
	case dry:
		return nil
	case len(remove) > 0 && !yes && !term.IsTerminal(int(a.Stdin.Fd())):
		return cli.Usage("look at the list, then: cloister project clean --yes",
			"clean project: without a terminal it needs --yes")
	case len(remove) > 0 && !yes && !a.Confirm(fmt.Sprintf("Remove these %d from %s?", len(remove), termsafe.Text(root))):
		return errors.New("clean project: not agreed to")
	}
	var errs []error
	for _, i := range remove {
		errs = append(errs, a.cleanOne(ctx, root, i))
	}
	if left > 0 {
		errs = append(errs, fmt.Errorf("clean project: %d were not removed: put them right by hand", left))
	}
	return errors.Join(errs...)
}

// cleanOne removes one path, once that is recorded.
func (a *Commands) cleanOne(ctx context.Context, root string, i clean.Item) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Review(ctx, api.ReviewDecision{Project: root, Path: i.Path,
		Decision: string(review.Clean)}); err != nil {
		return err
	}
	if err := clean.Remove(root, i); err != nil {
		return fmt.Errorf("clean %s: %w", i.Path, err)
	}
	a.Notice("removed %s", termsafe.Text(i.Path))
	return nil
}
