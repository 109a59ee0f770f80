package review_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/workspace/review"
)

// A file that a session replaced is new to the file system. That says nothing of what lay
// there before, so that a revert refuses where nobody looked.
func TestRevertDoesNotGuess(t *testing.T) {
	root, beside, store := t.TempDir(), t.TempDir(), review.Store{Dir: t.TempDir()}
	whole := filepath.Join(beside, ".git/config")
	for _, path := range []string{filepath.Join(root, "sub/.envrc"), whole} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now().Add(-time.Minute)
	changes := []review.Change{{Path: "sub/.envrc"}, {Path: whole, Unseen: true}}
	for _, seen := range []bool{false, true} {
		from := review.Session{ID: "1", Name: "hostile", Root: root, Main: root, Seen: seen, Began: began}
		if seen {
			changes = changes[1:] // what was looked at before is known to have been nothing
		}
		if err := store.Add(from, changes, time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			_, err := store.Decide(root, c.Path, review.Revert, func(review.Entry) error { return nil })
			if _, refused := errors.AsType[*review.NoCopy](err); !refused {
				t.Errorf("revert %s: %v, want a refusal", c.Path, err)
			}
		}
	}
	for path, want := range map[string]string{"sub/.envrc": filepath.Join(root, "sub/.envrc"), whole: whole} {
		if got := (review.Entry{Path: path}).Full(root); got != want {
			t.Errorf("%s is shown as %s, want %s", path, got, want)
		}
	}
}

// What a list that a backup brought back names as a copy is read from the copies alone.
func TestCopyThatIsNone(t *testing.T) {
	root, store := t.TempDir(), review.Store{Dir: t.TempDir()}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("key"), 0o600), os.MkdirAll(filepath.Join(store.Dir, "copies"), 0o700)); err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(filepath.Join(store.Dir, "copies"), secret)
	if err != nil {
		t.Fatal(err)
	}
	link := strings.Repeat("ab", 32)
	if err := os.Symlink(secret, filepath.Join(store.Dir, "copies", link)); err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{name, link, ""} {
		before, _, _ := store.Texts(root, review.Entry{Path: "f", Before: &review.Thing{Kind: review.File, Digest: digest}})
		if len(before) > 0 {
			t.Errorf("the copy %q is %q", digest, before)
		}
	}
}
