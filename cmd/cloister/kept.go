package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/api"
	"cloister/cmd/cloister/cli"
	"cloister/guardian"
	"cloister/internal/nearest"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/session"
	"cloister/session/kept"
	"cloister/state/store"
	"cloister/workspace"
	"cloister/workspace/projects"

	"github.com/spf13/cobra"
)

// keep opens the workspace that an overlay cloister writes to. It is held until the
// session ends.
func (a *app) keep(f *runFlags, dirs xdg.Dirs, project string) (*store.Use, error) {
	s, err := kept.Open(dirs, project)
	if err != nil {
		return nil, err
	}
	use, err := s.Begin(f.Name, project, f.Agent)
	if _, ok := errors.AsType[*store.Running](err); ok {
		return nil, cli.Hinted(err, "cloister attach "+f.Name+", or another --name for one beside it")
	}
	return use, err
}

// uppersOf are the folders of a kept workspace as the driver is notified of them.
func uppersOf(m store.Mount) workspace.Uppers {
	of := func(o store.Overlay) *sandbox.Upper {
		return &sandbox.Upper{Store: sandbox.HostPath(m.Store), Dir: o.Upper, Work: o.Work, Lower: o.Lower}
	}
	return workspace.Uppers{Project: of(m.Project), Home: of(m.Home), Git: of(m.Git)}
}

// keptName is a name for a kept workspace that no one named: the folder's with four
// random digits. It must be known before the session is granted one.
func keptName(f *runFlags, project string) string {
	if f.Verb == "start" {
		return session.FolderName(project)
	}
	return kept.NewName(session.FolderName(project))
}

// afterKept closes a kept workspace when its session is over. One without a change is
// removed, but that of an agent which has a conversation; of others the notices say
// what can be done.
func afterKept(ctx context.Context, f *runFlags, data string) (notices []string, err error) {
	use := f.kept
	if use == nil {
		return nil, nil
	}
	if err := use.Close(); err != nil {
		return nil, err
	}
	s, err := store.Open(data, "")
	if err != nil {
		return nil, err
	}
	w, err := s.Lock(use.Name)
	if err != nil {
		return nil, err
	}
	empty, err := w.Empty(f.Agent != "")
	if err == nil && empty {
		return nil, errors.Join(w.Close(), s.RemoveUnchanged(use.Name))
	}
	var n int
	if err == nil {
		n, err = kept.Count(ctx, w)
	}
	said := kept.Files(n) + " changed"
	if cut := context.Cause(ctx); cut != nil {
		n, err, said = 1, nil, "what changed is not counted ("+cut.Error()+"): it is"
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	if n == 0 {
		return []string{fmt.Sprintf("cloister: no file of the project changed; what the agent knows is kept: cloister "+
			"start --name %s goes on", use.Name)}, nil
	}
	return []string{
		"cloister: " + said + " in the overlay, not in the project",
		fmt.Sprintf("hint: cloister diff %s, then cloister apply %s or cloister discard %s", use.Name, use.Name, use.Name),
	}, nil
}

// keptStore opens the store of kept workspaces.
func (a *app) keptStore() (*store.Store, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	return kept.Open(d, "")
}

// keptHere finds the workspace that a person means: the one of that name, or the only
// one of this project.
func (a *app) keptHere(name string) (*store.Workspace, error) {
	s, err := a.keptStore()
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
		if near := nearest.Word(name, names); near != "" {
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
func (a *app) onlyHere(s *store.Store, names []string) (string, error) {
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
func (a *app) hand() (*kept.Hand, error) {
	d, err := a.Dirs()
	if err != nil {
		return nil, err
	}
	s, err := kept.Open(d, "")
	if err != nil {
		return nil, err
	}
	return &kept.Hand{Store: s, Audit: guardian.AuditDir(d), Record: a.recordState, Hold: a.holdStill,
		Known: func(main string) error { _, err := projects.Read(d, main); return err }}, nil
}

// handHere is the hand with the workspace that a person means.
func (a *app) handHere(name string) (*kept.Hand, *store.Workspace, error) {
	h, err := a.hand()
	if err != nil {
		return nil, nil, err
	}
	w, err := a.keptHere(name)
	return h, w, err
}

func (a *app) recordState(ctx context.Context, r api.StateRecord) error {
	c, err := a.Ensure(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.RecordState(ctx, r)
}

// holdStill holds a running cloister still.
func (a *app) holdStill(ctx context.Context, name string) (thaw func() error, err error) {
	c, err := a.Reach(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s, err := c.Session(ctx, name)
	if err != nil {
		return nil, err
	}
	return a.holdBox(s.Isolation, sandbox.Handle(s.Handle))
}

// holdBox holds a cloister of an isolation level still.
func (a *app) holdBox(isolation string, h sandbox.Handle) (thaw func() error, err error) {
	d, err := a.driverNamed(isolation)
	if err != nil {
		return nil, err
	}
	return sandbox.Hold(d, h)
}

// relative makes paths of the command line relative to a project's top.
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
			if _, err := os.Lstat(filepath.Join(project, p)); err == nil && filepath.IsLocal(p) {
				rel = filepath.Clean(p)
			} else {
				return nil, cli.Usage("", "%s does not lie in %s", p, project)
			}
		}
		out = append(out, filepath.ToSlash(rel))
	}
	return out, nil
}

// completeKeptMore offers those that were not named yet.
func (a *app) completeKeptMore(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	names, how := a.completeKept(cmd, nil, "")
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(args, n) }), how
}

// completeKept offers the kept workspaces.
func (a *app) completeKept(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	s, err := a.keptStore()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := s.Names() // Tab is no place for errors
	return names, cobra.ShellCompDirectiveNoFileComp
}
