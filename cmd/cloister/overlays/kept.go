package overlays

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/guardian/folders"
	"cloister/internal/nearest"
	"cloister/sandbox"
	"cloister/session/kept"
	"cloister/state/store"
	"cloister/workspace/projects"

	"github.com/spf13/cobra"
)

// KeptStore opens the store of kept workspaces.
func (a *Commands) KeptStore() (*store.Store, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	return kept.Open(d, "")
}

// open finds the workspace that a person means: the one of that name, or the only
// one of this project.
func (a *Commands) open(name string) (*store.Workspace, error) {
	s, err := a.KeptStore()
	if err != nil {
		return nil, err
	}
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	if name == "" {
		if name, err = a.onlyHere(s, names); err != nil {
			return nil, err
		}
	}
	w, err := s.Lock(name)
	if errors.Is(err, store.ErrNotFound) {
		near := nearest.Word(name, names)
		if of, _ := nameAt(name); slices.Contains(names, of) { // a checkpoint, where none is meant
			near = of
		}
		if near != "" {
			return nil, cli.Hinted(fmt.Errorf("no kept workspace %s", name), "did you mean "+near+"?")
		}
		return nil, cli.Hinted(fmt.Errorf("no kept workspace %s", name),
			"cloister run --workspace overlay keeps what its command changes")
	}
	if err != nil {
		return nil, err
	}
	for _, note := range w.Recovered {
		a.Notice("cloister: %s", note)
	}
	return w, nil
}

// onlyHere is the only workspace of the project that this folder lies in.
func (a *Commands) onlyHere(s *store.Store, names []string) (string, error) {
	p, err := a.FindProject(".")
	if err != nil {
		return "", err
	}
	var found []string
	for _, name := range names {
		project, err := s.ProjectOf(name)
		if err != nil {
			return "", err
		}
		if project == string(p.Root) {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", cli.Hinted(fmt.Errorf("%s has no kept workspace", p.Root),
			"cloister run --workspace overlay keeps what its command changes")
	}
	return "", cli.Usage("name one: "+strings.Join(found, ", "), "%s has %d kept workspaces", p.Root, len(found))
}

// nameAt takes NAME@CHECKPOINT apart.
func nameAt(text string) (name, checkpoint string) {
	name, checkpoint, _ = strings.Cut(text, "@")
	return name, checkpoint
}

// hand acts on kept workspaces, with the guardian as the one that records.
func (a *Commands) hand(ctx context.Context) (*kept.Hand, error) {
	d, host, err := a.DirsAndResolver()
	if err != nil {
		return nil, err
	}
	s, err := kept.Open(d, "")
	if err != nil {
		return nil, err
	}
	return &kept.Hand{Store: s, Audit: folders.Audit(d), Record: a.recordState, Hold: a.holdStill,
		Obeys: a.Obeys(ctx, d, host),
		Known: func(main string) error { _, err := projects.Read(d, main); return err }}, nil
}

// handHere is the hand with the workspace that a person means.
func (a *Commands) handHere(ctx context.Context, name string) (*kept.Hand, *store.Workspace, error) {
	h, err := a.hand(ctx)
	if err != nil {
		return nil, nil, err
	}
	w, err := a.open(name)
	return h, w, err
}

// handAt is handHere for NAME[@CHECKPOINT].
func (a *Commands) handAt(ctx context.Context, text string) (
	h *kept.Hand, w *store.Workspace, checkpoint string, err error,
) {
	name, checkpoint := nameAt(text)
	if checkpoint == "" && strings.Contains(text, "@") { // what a script's unset variable leaves
		return nil, nil, "", cli.Usage("cloister checkpoints "+name+" lists them", "%q names no checkpoint", text)
	}
	if h, w, err = a.handHere(ctx, name); err != nil || checkpoint == "" {
		return h, w, "", err
	}
	if _, err := w.Checkpoint(checkpoint); err != nil {
		return nil, nil, "", errors.Join(cli.Hinted(err, "cloister checkpoints "+w.Name), w.Close())
	}
	return h, w, checkpoint, nil
}

func (a *Commands) recordState(ctx context.Context, r api.StateRecord) error {
	c, err := a.Ensure(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.RecordState(ctx, r)
}

// holdStill holds a running cloister still.
func (a *Commands) holdStill(ctx context.Context, name string) (thaw func() error, err error) {
	c, err := a.Reach(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s, err := c.Session(ctx, name)
	if err != nil {
		return nil, err
	}
	return a.Hold(s.Isolation, sandbox.Handle(s.Handle))
}

// relative makes paths of the command line relative to a project's top. Where this folder lies
// elsewhere, as that of a worktree's repository does, they are taken to be so already: what the
// cloister added lies in no folder of the host.
func relative(project string, paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		full, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(full)); err == nil {
			full = filepath.Join(dir, filepath.Base(full))
		}
		rel, err := filepath.Rel(project, full)
		if err != nil || !filepath.IsLocal(rel) {
			if !filepath.IsLocal(p) {
				return nil, cli.Usage("", "%s does not lie in %s", p, project)
			}
			rel = filepath.Clean(p)
		}
		out = append(out, filepath.ToSlash(rel))
	}
	return out, nil
}

// completeKeptMore offers those that were not named yet.
func (a *Commands) completeKeptMore(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names, how := a.completeKept(cmd, nil, "")
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), how
}

// completeKept offers the kept workspaces.
func (a *Commands) completeKept(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, err := a.KeptStore()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := s.Names() // Tab is no place for errors
	return names, cobra.ShellCompDirectiveNoFileComp
}
