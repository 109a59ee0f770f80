package store

import (
	"slices"
	"time"
)

// autoQuota bounds what automatic checkpoints of one workspace may take, in bytes. The
// oldest go first.
const autoQuota = 2 << 30

// thin lets go of automatic checkpoints: all of the last hour stay, then the newest of
// each hour for a day and of each day for a month, as far as there is room for them.
// Named ones stay, and so does the one that the workspace stands on.
func (w *Workspace) thin(now time.Time) {
	var bytes int64
	seen := map[time.Time]bool{}
	drop := map[string]bool{}
	for _, c := range slices.Backward(w.Checkpoints) {
		if !c.Auto || c.ID == w.Head {
			continue
		}
		// Only what no layer of the workspace is costs anything by itself.
		if !slices.Contains(w.Layers, c.ID) {
			bytes += c.Bytes
		}
		age := now.Sub(c.Time)
		slot := c.Time
		switch {
		case age < time.Hour:
		case age < 24*time.Hour:
			slot = c.Time.Truncate(time.Hour)
		case age < 30*24*time.Hour:
			slot = c.Time.Truncate(24 * time.Hour)
		default:
			drop[c.ID] = true
		}
		if seen[slot] || bytes > autoQuota {
			drop[c.ID] = true
		}
		seen[slot] = true
	}
	w.forget(drop)
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

// names reports whether a layer is one of the workspace's, or of a checkpoint's.
func (w *Workspace) names(id string) bool {
	return slices.Contains(w.Layers, id) ||
		slices.ContainsFunc(w.Checkpoints, func(c Checkpoint) bool { return slices.Contains(c.Layers, id) })
}
