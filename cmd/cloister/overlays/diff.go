package overlays

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/session/kept"
	"cloister/state/layers"
	"cloister/state/patch"
	"cloister/state/store"

	"github.com/spf13/cobra"
)

// diffOf opens the changes that a person chose by NAME and paths.
func (a *Commands) diffOf(ctx context.Context, args []string, since string) (
	*kept.Hand, *store.Workspace, *store.Diff, error,
) {
	name, paths, err := a.nameAndPaths(args)
	if err != nil {
		return nil, nil, nil, err
	}
	h, w, at, err := a.handAt(ctx, name)
	if err != nil {
		return nil, nil, nil, err
	}
	rel, err := relative(w.Project, paths)
	if err != nil {
		return nil, nil, nil, errors.Join(err, w.Close())
	}
	d, err := h.Diff(ctx, w, at, "", rel)
	if _, ok := errors.AsType[*layers.TooMany](err); ok {
		err = cli.Hinted(err, "remove that inside: cloister run --workspace overlay --name "+w.Name+" -- rm -r PATH",
			"or give all of it up: cloister discard "+w.Name)
	}
	if astray, ok := errors.AsType[*store.Astray](err); ok {
		err = cli.Hinted(err, "bring the project back to "+astray.Project+": what the cloister wrote is kept",
			"cloister checkpoint export "+w.Name+" takes it to another place, and cloister discard "+w.Name+" gives it up")
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, w.Close())
	}
	if len(d.Changes) == 0 && len(rel) > 0 {
		if _, err := os.Lstat(filepath.Join(w.Project, rel[0])); err != nil {
			return nil, nil, nil, errors.Join(noPath(h.Store, w.Name, paths[0], name == ""), d.Close(), w.Close())
		}
	}
	if since != "" {
		if _, err := w.Checkpoint(since); err != nil {
			return nil, nil, nil, errors.Join(cli.Hinted(err, "cloister checkpoints "+w.Name), d.Close(), w.Close())
		}
		if err := w.OnlySince(ctx, since, d); err != nil {
			return nil, nil, nil, errors.Join(err, d.Close(), w.Close())
		}
	}
	return h, w, d, nil
}

// noPath says that a word is no path of a workspace. alone says that no other word was taken for the workspace's name.
func noPath(s *store.Store, workspace, word string, alone bool) error {
	switch {
	case alone:
		return cli.Hinted(fmt.Errorf("no kept workspace %s, and no path of that name in %s", word, workspace),
			"cloister diff "+workspace+" --name-only")
	case s.Has(word):
		return cli.Usage("what follows the name are paths in it", "one kept workspace at a time: %s, then %s", workspace,
			word)
	}
	return cli.Hinted(fmt.Errorf("no path %s in %s", word, workspace), "cloister diff "+workspace+" --name-only")
}

// nameAndPaths takes the first word for a name where there is a workspace of it.
func (a *Commands) nameAndPaths(args []string) (string, []string, error) {
	if len(args) == 0 {
		return "", nil, nil
	}
	s, err := a.KeptStore()
	if err != nil {
		return "", nil, err
	}
	name, _ := nameAt(args[0])
	if s.Has(name) || strings.Contains(args[0], "@") {
		return args[0], args[1:], nil
	}
	if _, err := a.onlyHereName(); err != nil {
		return args[0], args[1:], nil
	}
	return "", args, nil
}

func (a *Commands) onlyHereName() (string, error) {
	s, err := a.KeptStore()
	if err != nil {
		return "", err
	}
	names, err := s.Names()
	if err != nil {
		return "", err
	}
	return a.onlyHere(s, names)
}

func (a *Commands) DiffCommand() *cobra.Command {
	var stat, nameOnly, hunks, asJSON bool
	var since string
	c := &cobra.Command{
		Use:   "diff [NAME[@CHECKPOINT]] [PATH...]",
		Short: "Show what an overlay cloister changed",
		Long: `Show what the command of an overlay cloister changed, as git diff shows it. NAME is
needed where the project has several. What lies in .git is left out.`,
		ValidArgsFunction: a.completeKept,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, w, d, err := a.diffOf(cmd.Context(), args, since)
			if err != nil {
				return a.orNothing(err, args, asJSON)
			}
			defer func() { _ = errors.Join(d.Close(), w.Close()) }()
			switch {
			case asJSON:
				return a.JSON(kept.Changes(d.Changes))
			case nameOnly:
				for _, c := range kept.Changes(d.Changes) {
					a.Line("%s", patch.Quote(c.Path))
				}
				return nil
			case hunks:
				return a.showHunks(d)
			}
			write := patch.Write
			if stat {
				write = patch.Stat
			}
			var text bytes.Buffer
			if err := write(&text, d.Stack, d.Changes); err != nil {
				return err
			}
			a.Text(text.String())
			return nil
		},
	}
	fl := c.Flags()
	fl.BoolVar(&stat, "stat", false, "how many lines changed in each file")
	fl.BoolVar(&nameOnly, "name-only", false, "only the paths")
	fl.BoolVar(&hunks, "hunks", false, "each change apart, with the number that apply --hunk knows it by")
	fl.StringVar(&since, "since", "", "only what changed after this `checkpoint`")
	fl.BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

// orNothing is an empty diff for an overlay that a session left as it was.
func (a *Commands) orNothing(err error, args []string, asJSON bool) error {
	s, serr := a.KeptStore()
	p, perr := a.FindProject(".")
	switch {
	case errors.Join(serr, perr) != nil || !kept.ChangedNothing(s, args, string(p.Root)):
		return err
	case asJSON:
		return a.JSON([]api.Change{})
	}
	return nil
}

func (a *Commands) ApplyCommand() *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply [NAME] [PATH...]",
		Short: "Bring changes of an overlay cloister into the project",
		Long: `Bring changes of an overlay cloister into the project: all that were chosen, or none.
Where the project was changed meanwhile, the conflicts are listed, nothing is written and
the exit status is 1. Files that programs of the host run or obey need --auto-run.
cloister undo takes an apply back.

--merge joins texts that were changed in the project too: what they were before both
changes is known if it was seen before the project changed. Of a merged file the cloister,
which must not run, goes on with what was merged; what it had is a checkpoint.`,
		ValidArgsFunction: a.completeKept,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, w, d, err := a.diffOf(cmd.Context(), args, "")
			if err != nil {
				return err
			}
			defer func() { _ = errors.Join(d.Close(), w.Close()) }()
			return a.apply(cmd.Context(), h, w, d, f)
		},
	}
	f.register(c)
	return c
}

func (a *Commands) apply(ctx context.Context, h *kept.Hand, w *store.Workspace, d *store.Diff, f applyFlags) error {
	for _, c := range kept.Special(d) {
		a.Notice("cloister: %s is left out: it is a pipe, socket or device", patch.Quote(c.Path))
	}
	if f.hunk != "" {
		if err := a.keepHunks(ctx, d, f.hunk); err != nil {
			return err
		}
	}
	var merged []string
	if f.merge {
		var err error
		if merged, err = w.Merge(d); err != nil {
			return fmt.Errorf("apply %s: %w", w.Name, err)
		}
	}
	lines, err := h.Apply(ctx, w, d, merged, f.autoRun)
	if err != nil {
		return a.against(err)
	}
	if f.asJSON {
		return a.JSON(lines)
	}
	for _, l := range lines {
		word := l.Change
		if slices.Contains(merged, l.Path) {
			word = "merged"
		}
		a.Line("%s %s", word, patch.Quote(l.Path))
	}
	return nil
}

// against says what stands against an apply or undo: each path on a line, then the way on.
func (a *Commands) against(err error) error {
	if e, ok := errors.AsType[*kept.Held](err); ok {
		for _, c := range e.List {
			a.Notice("cloister: %s: %s", patch.Quote(c.Path), c.Why)
		}
		return cli.Hinted(err, "look: cloister diff "+e.Name,
			"then: cloister apply --auto-run "+e.Name+", or name the other paths alone")
	}
	e, ok := errors.AsType[*kept.InConflict](err)
	if !ok {
		return stopFirst(err)
	}
	for _, c := range e.List {
		a.Notice("cloister: conflict: %s: %s", patch.Quote(c.Path), c.Why)
	}
	if e.Verb == "apply" {
		return cli.Hinted(err, "name the paths without conflict, or discard those that you do not want; "+
			"--merge joins what touches no line of both")
	}
	return err
}

func (a *Commands) DiscardCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "discard [NAME] [PATH...]",
		Short: "Give up changes of an overlay cloister",
		Long: `Give up changes of an overlay cloister that is not running: those of the paths, or all
of them with its checkpoints.`,
		ValidArgsFunction: a.completeKept,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, paths, err := a.nameAndPaths(args)
			if err != nil {
				return err
			}
			if len(paths) > 0 {
				return a.discardPaths(cmd.Context(), args)
			}
			h, w, err := a.handHere(cmd.Context(), name)
			if err != nil {
				return err
			}
			if err := h.DiscardAll(cmd.Context(), w); err != nil {
				return stopFirst(err)
			}
			a.Line("%s", w.Name)
			return nil
		},
	}
}

func (a *Commands) discardPaths(ctx context.Context, args []string) error {
	h, w, d, err := a.diffOf(ctx, args, "")
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(d.Close(), w.Close()) }()
	lines, err := h.Discard(ctx, w, d)
	if err != nil {
		return stopFirst(err)
	}
	for _, l := range lines {
		a.Line("%s", patch.Quote(l.Path))
	}
	return nil
}

// stopFirst adds the way on where a running cloister is in the way.
func stopFirst(err error) error {
	if running, ok := errors.AsType[*store.Running](err); ok {
		return cli.Hinted(err, "cloister stop "+running.Name)
	}
	return err
}

func (a *Commands) UndoCommand() *cobra.Command {
	var steps int
	c := &cobra.Command{
		Use:               "undo [NAME]",
		Short:             "Take the last apply of a workspace back",
		Args:              cli.Args(0, 1),
		ValidArgsFunction: a.completeKept,
		RunE: func(cmd *cobra.Command, args []string) error {
			if steps < 1 {
				return cli.Usage("", "undo: --steps: want a number from 1 on")
			}
			h, w, err := a.handHere(cmd.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			defer func() { _ = w.Close() }()
			undone, err := h.Undo(cmd.Context(), w, steps)
			for _, label := range undone {
				a.Line("undone: %s", label)
			}
			if errors.Is(err, store.ErrNotFound) {
				return cli.Hinted(err, "what it changed is not in the project: cloister discard "+w.Name+" gives that up",
					"cloister checkpoints "+w.Name+" lists what cloister restore goes back to")
			}
			return a.against(err)
		},
	}
	c.Flags().IntVarP(&steps, "steps", "n", 1, "how many applies to take back")
	return c
}
