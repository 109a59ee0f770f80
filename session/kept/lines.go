package kept

import (
	"context"
	"errors"
	"fmt"

	"cloister/api"
	"cloister/internal/termsafe"
	"cloister/state/layers"
	"cloister/state/store"
	"cloister/workspace"
)

// Changes tells of changes in the API's words, without what comes along with others.
func Changes(list []layers.Change) []api.Change {
	out := []api.Change{}
	for _, c := range list {
		if c.Implied {
			continue
		}
		node := c.New
		if !node.Exists() {
			node = c.Old
		}
		out = append(out, api.Change{Path: c.Path, Change: string(c.Op), From: c.From, Kind: string(node.Kind),
			Size: c.New.Size, AutoRun: workspace.RunsByItself(c.Path)})
	}
	return out
}

// First names the first paths of a list.
func First(list []api.Change) string {
	text := ""
	for i, c := range list {
		if i == 5 {
			return text + fmt.Sprintf(", and %d more", len(list)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += c.Path
	}
	return text
}

// Files counts files in words.
func Files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// Checkpoint tells of a checkpoint in the API's words.
func Checkpoint(name string, c store.Checkpoint) api.Checkpoint {
	return api.Checkpoint{ID: c.ID, Cloister: name, Time: c.Time, Message: c.Message, Parent: c.Parent, Bytes: c.Bytes,
		Auto: c.Auto, Memory: c.Memory != ""}
}

// List tells of every workspace. It waits for none that a command has locked.
func (h *Hand) List(ctx context.Context) ([]api.Workspace, error) {
	names, err := h.Store.Names()
	if err != nil {
		return nil, err
	}
	out := []api.Workspace{}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		one := api.Workspace{Name: name, Applied: []string{}, Checkpoints: []api.Checkpoint{}}
		w, err := h.Store.TryLock(name)
		if errors.Is(err, store.ErrNotFound) {
			continue // it was discarded meanwhile
		}
		if err == nil {
			err = errors.Join(describe(&one, w), w.Close())
		}
		if _, busy := errors.AsType[*store.Busy](err); busy {
			one.Busy = true
			one.Project, _ = h.Store.ProjectOf(name) // Busy says that not all is known
		} else if err != nil {
			one.Problem = termsafe.Text(err.Error())
		}
		out = append(out, one)
	}
	return out, nil
}

func describe(one *api.Workspace, w *store.Workspace) (err error) {
	one.Project, one.Agent, one.Head, one.Parent = w.Project, w.Agent, w.Head, w.Parent
	for _, c := range w.Checkpoints {
		one.Checkpoints = append(one.Checkpoints, Checkpoint(w.Name, c))
	}
	applied, err := w.Applied()
	if err != nil {
		return err
	}
	one.Applied = append(one.Applied, applied...)
	one.Running, err = w.IsRunning()
	return err
}
