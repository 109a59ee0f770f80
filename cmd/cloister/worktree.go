package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"cloister/cmd/cloister/cli"
	"cloister/internal/nearest"
	"cloister/workspace/worktrees"

	"github.com/spf13/cobra"
)

func (a *app) worktreeCommand() *cobra.Command {
	return cli.Group("worktree", "List and remove the worktrees that -b made", a.worktreeList(), a.worktreeRemove())
}

// worktrees are those of the project in dir.
func (a *app) worktrees(dir string) (*worktrees.Set, error) {
	d, host, err := a.DirsAndResolver()
	if err != nil {
		return nil, err
	}
	p, err := a.ProjectAt(cmp.Or(dir, "."), host)
	if err != nil {
		return nil, err
	}
	return worktrees.Of(p, host, d.Data, locksDir(d))
}

// branches are those with a worktree, for Tab, which is no place for errors.
func (a *app) branches(ctx context.Context, dir string) []string {
	w, err := a.worktrees(dir)
	if err != nil {
		return nil
	}
	trees, _ := w.List(ctx)
	return worktrees.Branches(trees)
}

// listedTree is one line of the list.
type listedTree struct {
	worktrees.Tree
	Cloisters []string `json:"cloisters"`
}

func (a *app) worktreeList() *cobra.Command {
	var asJSON bool
	var dir string
	c := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List this project's worktrees",
		Args:    cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := a.worktrees(dir)
			if err != nil {
				return err
			}
			found, err := w.List(cmd.Context())
			if err != nil {
				return err
			}
			trees := make([]listedTree, len(found))
			for i, t := range found {
				trees[i] = listedTree{t, []string{}}
				if trees[i].Cloisters, err = a.cloistersAt(cmd.Context(), t.Path); err != nil {
					return err
				}
			}
			if asJSON {
				return a.JSON(trees)
			}
			rows := [][]string{{"BRANCH", "CLOISTER", "PATH"}}
			for _, t := range trees {
				name := "-"
				if len(t.Cloisters) > 0 {
					name = t.Cloisters[0]
				}
				rows = append(rows, []string{cli.OrDash(t.Branch), name, t.Path})
			}
			a.Table(rows)
			if len(trees) == 0 {
				a.Notice("no worktree of this project; cloister start -b BRANCH makes one")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().StringVarP(&dir, "project", "C", "", "the project, instead of the current folder's")
	return c
}

// cloistersAt are the names of the cloisters that live in a folder.
func (a *app) cloistersAt(ctx context.Context, path string) ([]string, error) {
	live, err := a.Living(ctx)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, s := range live {
		if s.Path == path {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

func (a *app) worktreeRemove() *cobra.Command {
	var force bool
	var dir string
	c := &cobra.Command{
		Use:     "remove BRANCH",
		Aliases: []string{"rm"},
		Short:   "Remove a worktree; its branch stays",
		Long: `Remove a worktree; its branch stays. Refuses while a cloister lives in it, and to
lose files that are not committed or commits that are nowhere else, unless
--force is given.`,
		Args: cli.Args(1, 1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.branches(cmd.Context(), dir), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.removeWorktree(cmd.Context(), dir, args[0], force)
		},
	}
	c.Flags().BoolVarP(&force, "force", "f", false, "lose what is in it")
	c.Flags().StringVarP(&dir, "project", "C", "", "the project, instead of the current folder's")
	return c
}

func (a *app) removeWorktree(ctx context.Context, dir, branch string, force bool) error {
	w, err := a.worktrees(dir)
	if err != nil {
		return err
	}
	found, err := w.List(ctx)
	if err != nil {
		return err
	}
	path := ""
	for _, t := range found {
		if t.Branch != branch && t.Path != branch {
			continue
		}
		path = t.Path
		names, err := a.cloistersAt(ctx, t.Path)
		if err != nil {
			return err
		}
		if len(names) > 0 {
			return cli.Hinted(fmt.Errorf("remove worktree of %s: the cloister %s lives in it", branch, names[0]),
				"stop it first: cloister stop "+names[0])
		}
	}
	err = w.Remove(ctx, branch, force)
	if none, ok := errors.AsType[*worktrees.Absent](err); ok {
		if near := nearest.Word(branch, worktrees.Branches(none.Known)); near != "" {
			return cli.Hinted(err, "did you mean "+near+"?")
		}
		return cli.Hinted(err, "cloister worktree list tells them")
	}
	if err != nil {
		return err
	}
	a.Line("%s", branch)
	return a.forgetPlace(path)
}

// forgetPlace forgets a folder that git has removed: the next of that name is new.
func (a *app) forgetPlace(path string) error {
	_, host, err := a.DirsAndResolver()
	if err != nil {
		return err
	}
	return host.Places().Forget(path)
}
