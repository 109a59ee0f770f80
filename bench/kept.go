package main

import (
	"context"
	"path/filepath"

	"cloister/bench/overlays"
)

func measureKept(ctx context.Context, w *world) error {
	return overlays.All(ctx, filepath.Join(w.dir, "kept"), w.short, w.raw.User == "root", w.raw.add)
}

// keptBudgets are those of kept workspaces.
func keptBudgets() []budget {
	var out []budget
	of := func(what string) string { return overlays.Subject(what, overlays.Files, overlays.Changed) }
	for _, b := range []struct {
		title, what string
		most        float64
	}{
		{"a checkpoint of a stopped workspace", "checkpoint, stopped", 5},
		{"a checkpoint of a running one (held still no longer)", "checkpoint, live", 30},
		{"restore", "restore", 10},
		{"diff", "diff", 15},
		{"ten forks, as root to ten mounted views", "ten forks", 50},
		{"apply of 200 files", "apply", 100},
	} {
		out = append(out, budget{title: b.title, subject: of(b.what), most: b.most, unit: "ms"})
	}
	for _, peer := range []string{"cp -a", "git stash", "btrfs snapshot", "cp -a --reflink, btrfs", "cp -a --reflink, xfs"} {
		out = append(out, budget{
			title: "a checkpoint of a stopped workspace", subject: of("checkpoint, stopped"), peer: peer, inverse: true,
		})
	}
	return append(out, budget{title: "restore", subject: of("restore"), peer: "git stash pop", inverse: true})
}
