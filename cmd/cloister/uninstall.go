package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/cmd/cloister/images"
	"cloister/guardian/folders"
	"cloister/internal/realpath"
	"cloister/internal/xdg"
	"cloister/secret/vault"
	"cloister/state/layers"
	"cloister/state/store"
	"cloister/workspace/worktrees"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *app) uninstallCommand() *cobra.Command {
	var keep, yes bool
	c := &cobra.Command{
		Use:   "uninstall [--keep-config] [--yes]",
		Short: "Remove all that Cloister keeps on this machine",
		Long: `End the guardian and remove all that Cloister keeps for you on this machine: private
homes, caches, images, the vault with its credentials, the record, settings, and what
sessions or engines still have of it. Your projects stay as they are. It refuses while a
cloister lives, and while a worktree or a kept workspace holds work that is nowhere else.`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.uninstall(cmd.Context(), keep, yes) },
	}
	c.Flags().BoolVar(&keep, "keep-config", false,
		"leave config.yaml, policies, remembered answers and settings of projects")
	c.Flags().BoolVar(&yes, "yes", false, "remove without a question")
	return c
}

func (a *app) uninstall(ctx context.Context, keep, yes bool) error {
	d, err := a.Dirs()
	if err != nil {
		return err
	}
	live, err := a.Living(ctx)
	if err != nil {
		return err
	}
	if len(live) > 0 {
		return cli.Hinted(fmt.Errorf("uninstall: the cloister %s lives%s", live[0].Name, more(len(live)-1)),
			"stop them first: cloister stop --all")
	}
	if err := a.unsaved(d); err != nil {
		return err
	}
	gone := []string{d.Data, d.State, d.Runtime}
	if !keep {
		gone = append(gone, d.Config)
	}
	for _, dir := range gone {
		if _, err := os.Lstat(dir); err == nil {
			a.Line("remove  %s", dir)
		}
	}
	if err := a.Out.Flush(); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	switch {
	case yes:
	case !term.IsTerminal(int(a.Stdin.Fd())):
		return cli.Usage("cloister uninstall --yes", "uninstall: without a terminal it needs --yes")
	case !a.Confirm("Remove these, with all credentials and the record?"):
		return errors.New("uninstall: not agreed to")
	}
	if err := a.removeTrees(ctx, d); err != nil {
		return err
	}
	if err := a.lastGuardian(ctx); err != nil {
		return err
	}
	// What a crash left of sessions is found by these folders: it goes first.
	if sweep := a.sweep(d); sweep != nil {
		if err := sweep(ctx, nil); err != nil {
			return fmt.Errorf("uninstall: %w", err)
		}
	}
	if err := images.ForgetAll(ctx, &a.App); err != nil {
		return err
	}
	if ring := a.secrets().Keyring(); ring != nil {
		if err := vault.ForgetKey(folders.Vault(d)); err != nil {
			a.Notice("the vault's key may still be in the keyring: %v", err)
		}
	}
	for _, dir := range gone {
		if err := removeFolder(dir); err != nil {
			return fmt.Errorf("uninstall: %w", err)
		}
	}
	if exe, err := os.Executable(); err == nil {
		a.Notice("what is left is the program: %s", exe)
	}
	return nil
}

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more", n)
}

// unsaved refuses where a kept workspace holds changes.
func (a *app) unsaved(d xdg.Dirs) error {
	kept, err := store.Open(d.Data, "")
	if err != nil {
		return err
	}
	names, err := kept.Names()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(names) > 0 {
		return cli.Hinted(fmt.Errorf("uninstall: the workspace of %s is kept%s", names[0], more(len(names)-1)),
			"bring its changes over: cloister apply "+names[0], "or let them go: cloister discard "+names[0])
	}
	return nil
}

// removeTrees removes the working trees of branches, each by git's own ways: one that
// holds work that is nowhere else stays, and so does everything.
func (a *app) removeTrees(ctx context.Context, d xdg.Dirs) error {
	known, err := a.Projects(d)
	if err != nil {
		return err
	}
	host, err := a.Resolver(d)
	if err != nil {
		return err
	}
	for _, k := range known {
		p, err := a.FindProject(k.Root)
		if err != nil {
			continue // it is gone, or no cloister was ever let into it
		}
		set, err := worktrees.Of(p, host, d.Data, locksDir(d))
		if errors.Is(err, worktrees.ErrNoRepository) {
			continue
		}
		if err != nil {
			return err
		}
		list, err := set.List(ctx)
		if err != nil {
			return err
		}
		for _, t := range list {
			if !realpath.Inside(t.Path, worktrees.Dir(d.Data)) {
				continue
			}
			err := set.Remove(ctx, t.Branch, false)
			if loss, ok := errors.AsType[*worktrees.Loss](err); ok {
				loss.Project = k.Root
			}
			if err != nil {
				return fmt.Errorf("uninstall: %w", err)
			}
		}
	}
	return nil
}

// lastGuardian ends the guardian and waits for its last word.
func (a *app) lastGuardian(ctx context.Context) error {
	_, err := a.StopGuardian(ctx, "cloister uninstall", func(s api.Status) error {
		if s.Sessions > 0 {
			return cli.Hinted(errors.New("uninstall: a cloister has begun meanwhile"), "stop them first: cloister stop --all")
		}
		return nil
	})
	return err
}

// removeFolder removes a folder of ours, whatever modes programs left in it. One that
// a person replaced by a link is left by its link alone.
func removeFolder(dir string) error {
	if _, err := os.Lstat(filepath.Dir(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return layers.RemoveAll(filepath.Dir(dir), filepath.Base(dir))
}
