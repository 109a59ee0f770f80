package store

import (
	"slices"
	"time"

	"cloister/state/aging"
)

// thin lets go of automatic checkpoints that are too old or too many.
func (w *Workspace) thin(now time.Time) {
	var list []aging.Moment
	for _, c := range w.Checkpoints {
		m := aging.Moment{ID: c.ID, Time: c.Time, Stays: !c.Auto || c.ID == w.Head}
		// Only what no layer of the workspace is costs anything by itself.
		if !slices.Contains(w.Layers, c.ID) {
			m.Bytes = c.Bytes
		}
		list = append(list, m)
	}
	w.forget(aging.Drop(list, now))
}

// forget takes checkpoints out of the list. Whoever came after one comes after the one
// before it now.
func (w *Workspace) forget(drop map[string]bool) {
	if len(drop) == 0 {
		return
	}
	above := map[string]string{}
	for _, c := range w.Checkpoints {
		above[c.ID] = c.Parent
	}
	parent := func(id string) string {
		for range len(above) {
			if !drop[id] {
				break
			}
			id = above[id]
		}
		return id
	}
	for i := range w.Checkpoints {
		w.Checkpoints[i].Parent = parent(w.Checkpoints[i].Parent)
	}
	w.Checkpoints = slices.DeleteFunc(w.Checkpoints, func(c Checkpoint) bool { return drop[c.ID] })
	w.Head = parent(w.Head)
	for id := range w.Sums {
		if !w.names(id) {
			delete(w.Sums, id)
		}
	}
}

// Drop gives up one checkpoint and what it alone has of the disk, as if it had never been made. The
// workspace's files stay what they are.
func (w *Workspace) Drop(id string) error {
	if _, err := w.Checkpoint(id); err != nil {
		return err
	}
	w.forget(map[string]bool{id: true})
	w.thinned = true
	return w.save()
}

// names reports whether a layer is one of the workspace's, or of a checkpoint's.
func (w *Workspace) names(id string) bool {
	return slices.Contains(w.Layers, id) ||
		slices.ContainsFunc(w.Checkpoints, func(c Checkpoint) bool { return slices.Contains(c.Layers, id) })
}
