package review

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"cloister/internal/durable"
)

// First is the time since which sessions changed files of a project, by what was kept of
// the ends of its sessions: the beginning of all times at the first, or where nothing can be
// kept. since is when the session that ends now began.
func (s Store) First(project string, since time.Time) time.Time {
	if s.Dir == "" {
		return time.Time{}
	}
	file := filepath.Join(s.Dir, "first", filepath.Base(s.file(project)))
	text, err := os.ReadFile(file)
	if err == nil {
		var first time.Time
		if err = first.UnmarshalText(text); err == nil {
			if since.Before(first) {
				return since
			}
			return first
		}
	}
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		if text, err := since.UTC().MarshalText(); err == nil {
			_ = durable.WriteFile(file, text, 0o600) // without it no index is believed anything
		}
	}
	return time.Time{}
}
