package launch

import (
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
	"cloister/internal/xdg"
	"cloister/workspace/worktrees"
)

// StateAround are Cloister's own folders, of which a project may hold none. A
// managed worktree lies in one of them, and beside the others.
func StateAround(d xdg.Dirs, root string) []string {
	out := KeepOut(d)
	trees := worktrees.Dir(d.Data)
	if real, err := filepath.EvalSymlinks(trees); err == nil {
		trees = real
	}
	if !strings.HasPrefix(root, trees+"/") {
		return out
	}
	data := filepath.Dir(trees)
	return append(slices.DeleteFunc(out, func(dir string) bool { return dir == data }), filepath.Join(data, "homes"))
}

// KeepOut are Cloister's own folders, which no cloister sees.
func KeepOut(d xdg.Dirs) []string {
	var out []string
	for _, dir := range []string{d.Config, d.State, d.Data, d.Runtime} {
		if real, err := realpath.Of(dir); err == nil {
			dir = real
		}
		out = append(out, dir)
	}
	return out
}
