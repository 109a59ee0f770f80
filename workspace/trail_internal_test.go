package workspace

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/workspace/protect"
)

// bySplit says the same as autoRunPath from the whole path at once.
func bySplit(rel string) bool {
	parts := strings.Split(strings.ToLower(rel), string(filepath.Separator))
	name := parts[len(parts)-1]
	below := func(folder string) bool { return slices.Contains(parts[:len(parts)-1], folder) }
	for i, part := range parts {
		if protect.Name(part) && !slices.ContainsFunc(parts[:i], func(p string) bool { return slices.Contains(protect.Skipped, p) }) {
			return true
		}
		if part == "workflows" && i > 0 && parts[i-1] == ".github" {
			return true
		}
		if part == "hooks" && i < len(parts)-1 && slices.Contains(parts[:i], ".git") && !strings.HasSuffix(name, ".sample") {
			return true
		}
	}
	switch name {
	case ".git":
		return true
	case "config":
		return below(".git") || below(".sl")
	case "config.worktree", "commondir", "gitdir", "git-rebase-todo":
		return below(".git")
	case "hgrc", "hgrc-not-shared", "sharedpath":
		return below(".hg")
	case "config.toml":
		return below(".jj")
	case "defaults":
		return below("_darcs")
	case "attributes", "alternates", "http-alternates":
		return below(".git") && slices.Contains(parts, "info")
	}
	return false
}

// A trail that is worked out folder by folder says of every path what the path says.
func TestTrailSaysWhatThePathSays(t *testing.T) {
	names := strings.Fields(`a .git .GIT .github .GitHub workflows Workflows hooks Hooks x.sample pre-commit info Info config Config
		config.worktree commondir gitdir git-rebase-todo hgrc sharedpath .hg .sl .jj config.toml _darcs defaults attributes alternates
		http-alternates node_modules Vendor .vscode .VSCode .envrc x.code-workspace modules objects .gitmodules Jenkinsfile`)
	r := rand.New(rand.NewPCG(15, 1))
	yes := 0
	for range 200_000 {
		parts := make([]string, 1+r.IntN(6))
		for i := range parts {
			parts[i] = names[r.IntN(len(names))]
		}
		rel := strings.Join(parts, "/")
		want := bySplit(rel)
		if got := autoRunPath(rel); got != want {
			t.Fatalf("%s: %v, want %v", rel, got, want)
		}
		if want {
			yes++
		}
	}
	if yes < 1000 || yes > 199_000 {
		t.Errorf("%d paths of 200,000 are obeyed: that shows little", yes)
	}
}

func TestLookedBefore(t *testing.T) {
	for rel, want := range map[string]bool{
		".git/objects/ab/x": false, "lib.git/objects/00/x": false, ".git/objects/info/alternates": true, ".git/objects/pack/x": true,
		".git/hooks/x": true, "objects/ab": false, "objects": true, "ab/objects/x": true, "objects/abc/x": true,
	} {
		if got := LookedBefore(rel); got != want {
			t.Errorf("%s: %v", rel, got)
		}
	}
}
