package workspace_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cloister/workspace"
)

// Where a file system folds case, git takes other spellings for a repository's parts too.
func TestRepositoryInOtherSpelling(t *testing.T) {
	root := base(t)
	for _, name := range []string{"a/head", "a/OBJECTS/x", "a/Refs/x", "a/Config", "a/HOOKS/post-checkout", "b/Objects/x", "b/Refs/x", "b/Config"} {
		write(t, filepath.Join(root, name), "x")
	}
	got, truncated := workspace.Changed(t.Context(), root, time.Time{}, none{})
	if want := []string{"a/Config", "a/HOOKS", "a/HOOKS/post-checkout", "a/OBJECTS", "a/Refs", "a/head"}; truncated || !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

type none struct{}

func (none) Held(string) bool { return false }
