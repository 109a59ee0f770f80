package kept

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"

	"cloister/state/store"
)

// NewName is a name for a workspace that no one named: a folder's with four random digits.
func NewName(base string) string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // it cannot fail (crypto/rand)
	return base[:min(len(base), 40)] + "-" + hex.EncodeToString(b[:])
}

// Count counts the files that a workspace changed.
func Count(ctx context.Context, w *store.Workspace) (int, error) {
	var h Hand // it only looks
	d, err := h.Diff(ctx, w, "", "", nil)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, c := range d.Changes {
		if !c.Implied {
			n++
		}
	}
	return n, d.Close()
}

// ChangedNothing reports whether the first of some words, or without any a project, means a
// workspace that a session left as it was: none is kept of it.
func ChangedNothing(s *store.Store, words []string, project string) bool {
	if len(words) > 0 {
		return !s.Has(words[0]) && s.Unchanged(words[0], "")
	}
	names, err := s.Names()
	return err == nil && s.Unchanged("", project) && !slices.ContainsFunc(names, func(name string) bool {
		of, err := s.ProjectOf(name)
		return err != nil || of == project
	})
}
