package overlays

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"cloister/agent"
	"cloister/cmd/cloister/cli"
	"cloister/internal/xdg"
	"cloister/sandbox"
	"cloister/session/kept"
	"cloister/session/registry"
	"cloister/state/parts"
	"cloister/state/store"
	"cloister/workspace"
)

// Worker is the agent that works in a session: the one that was named, or the known one whose
// program is run.
func Worker(named string, argv []string) string {
	if named == "" && len(argv) > 0 && slices.Contains(agent.Names(), filepath.Base(argv[0])) {
		return filepath.Base(argv[0])
	}
	return named
}

// Begin opens the workspace that an overlay cloister writes to. It is held until the
// session ends.
func Begin(dirs xdg.Dirs, project, name, agent string) (*store.Use, error) {
	s, err := kept.Open(dirs, project)
	if err != nil {
		return nil, err
	}
	use, err := s.Begin(name, project, agent)
	if _, ok := errors.AsType[*store.Running](err); ok {
		return nil, cli.Hinted(err, "cloister attach "+name+", or another --name for one beside it")
	}
	if none, ok := errors.AsType[*parts.NoUpper](err); ok {
		return nil, &sandbox.Unsupported{Guarantee: "overlay workspace", Reason: none.Error(),
			Fix: "point XDG_DATA_HOME at one that has them (ext4, xfs, btrfs, tmpfs), or run with --workspace live"}
	}
	return use, err
}

// Uppers are the folders of a kept workspace as the driver is notified of them.
func Uppers(m store.Mount) workspace.Uppers {
	of := func(o store.Overlay) *sandbox.Upper {
		return &sandbox.Upper{Store: sandbox.HostPath(m.Store), Dir: o.Upper, Work: o.Work, Lower: o.Lower}
	}
	return workspace.Uppers{Project: of(m.Project), Home: of(m.Home), Git: of(m.Git)}
}

// NewName is a name for a kept workspace that no one named: the folder's with four
// random digits. It must be known before the session is granted one. What is started
// is called as its folder.
func NewName(started bool, project string) string {
	if started {
		return registry.FolderName(project)
	}
	return kept.NewName(registry.FolderName(project))
}

// End closes a kept workspace when its session is over. One without a change is
// removed, but that of an agent which has a conversation; of others the notices say
// what can be done.
func End(ctx context.Context, use *store.Use, agent, data string) (notices []string, err error) {
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
	empty, err := w.Empty(agent != "")
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
