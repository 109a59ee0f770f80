package kept_test

import (
	"testing"

	"cloister/session/kept"
	"cloister/state/held"
)

// TestHeldCounts holds the sentence to the number of its files.
func TestHeldCounts(t *testing.T) {
	for n, want := range map[int]string{
		1: "apply k: 1 file needs a word of yours; nothing was written",
		2: "apply k: 2 files need a word of yours; nothing was written",
	} {
		if got := (&kept.Held{Name: "k", List: make([]held.Change, n)}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
