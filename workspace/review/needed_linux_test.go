package review_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"cloister/workspace/review"
)

// A mended .git/HEAD is new to the file system, and what it held was not copied: a
// revert would remove what git needs.
func TestRevertNeverRemovesWhatGitNeeds(t *testing.T) {
	root, store := t.TempDir(), review.Store{Dir: t.TempDir()}
	began := time.Now().Add(-time.Minute)
	paths := []string{
		".git/HEAD", ".git/index", ".git/objects/ab/0123456789012345678901234567890123456f", ".git/refs/heads/main",
		".git/packed-refs", "sub/.git/HEAD", ".git/modules/a/HEAD", ".git/worktrees/b/HEAD", ".GIT/head",
	}
	removable := []string{".git/hooks/HEAD", ".git/refs/replace/0123", ".git/objects/info/alternates", ".git/objects/x.git/hooks/update", ".envrc"}
	var changes []review.Change
	for _, path := range append(append([]string{"bare/HEAD"}, paths...), removable...) {
		full := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, review.Change{Path: path, Why: "git needs it", Mended: path == "bare/HEAD"})
	}
	// Seen: the session's copies say that what is not among them held nothing.
	from := review.Session{ID: "1", Name: "hostile", Root: root, Main: root, Seen: true, Began: began}
	if err := store.Add(from, changes, time.Now()); err != nil {
		t.Fatal(err)
	}
	allow := func(review.Entry) error { return nil }
	for _, path := range paths {
		_, err := store.Decide(root, path, review.Revert, allow)
		var needed *review.Needed
		if !errors.As(err, &needed) || len(needed.Hints()) == 0 {
			t.Errorf("revert %s: %v, want a refusal that says what to do", path, err)
		}
		if _, err := os.Lstat(filepath.Join(root, path)); err != nil {
			t.Errorf("%s is gone: %v", path, err)
		}
		if _, err := store.Decide(root, path, review.Keep, allow); err != nil {
			t.Errorf("keep %s: %v", path, err)
		}
	}
	var unknown *review.NoCopy
	if _, err := store.Decide(root, "bare/HEAD", review.Revert, allow); !errors.As(err, &unknown) {
		t.Errorf("revert of a mended file whose content before is not known: %v", err)
	}
	for _, path := range removable {
		if _, err := store.Decide(root, path, review.Revert, allow); err != nil {
			t.Errorf("revert %s: %v", path, err)
		}
		if _, err := os.Lstat(filepath.Join(root, path)); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
}

// One decision about several has an outcome for each, and what is wrong with one keeps no other.
func TestDecideAll(t *testing.T) {
	root, store := t.TempDir(), review.Store{Dir: t.TempDir()}
	var changes []review.Change
	for _, path := range []string{"a", "b", "c"} {
		if err := os.WriteFile(filepath.Join(root, path), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		changes = append(changes, review.Change{Path: path, Why: "a shell"})
	}
	if err := store.Add(review.Session{ID: "one", Name: "one", Root: root}, changes, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "b"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	var recorded []string
	all, err := store.DecideAll(root, []string{"a", "b", "none", "c", "a"}, review.Keep, func(e review.Entry) error {
		recorded = append(recorded, e.Path)
		return nil
	})
	if err != nil || len(all) != 5 {
		t.Fatal(all, err)
	}
	var moved *review.Moved
	var missing, again *review.NotWaiting
	if all[0].Err != nil || !errors.As(all[1].Err, &moved) || !errors.As(all[2].Err, &missing) || all[3].Err != nil ||
		!errors.As(all[4].Err, &again) || all[0].Entry.State != review.Kept || all[3].Entry.Path != "c" {
		t.Errorf("outcomes: %+v", all)
	}
	if !slices.Equal(recorded, []string{"a", "c"}) {
		t.Errorf("recorded: %q", recorded)
	}
	p, err := store.Load(root)
	if err != nil || p.Waiting() != 1 {
		t.Errorf("%d wait, not b alone: %v", p.Waiting(), err)
	}
}
