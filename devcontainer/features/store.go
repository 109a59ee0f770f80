package features

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cloister/internal/durable"
)

// Store is a folder of features of registries, by their digests. What is read of it is
// compared with its digest again.
type Store struct{ dir string }

// OpenStore gives the store in a folder, which is made with the first feature.
func OpenStore(dir string) Store { return Store{dir} }

func (s Store) name(digest string) (string, error) {
	if !digestName().MatchString(digest) {
		return "", fmt.Errorf("%q is no digest", digest)
	}
	return filepath.Join(s.dir, strings.TrimPrefix(digest, "sha256:")+".json"), nil
}

// Get gives the files of a feature; an error of fs.ErrNotExist where it was not fetched.
func (s Store) Get(digest string) ([]File, error) {
	if s == (Store{}) {
		return nil, fs.ErrNotExist
	}
	name, err := s.name(digest)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var p Packed
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	files, err := p.Files(digest)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return files, nil
}

// Put keeps a feature, after a look at all of it.
func (s Store) Put(digest string, p Packed) error {
	name, err := s.name(digest)
	if err != nil {
		return err
	}
	if _, err := p.Files(digest); err != nil {
		return err
	}
	text, err := json.Marshal(p)
	if err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err == nil {
		err = durable.WriteFile(name, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep a feature: %w", err)
	}
	return nil
}

// Size is what all of them take, in bytes.
func (s Store) Size() (n int64) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// Clear removes all of them: each is fetched again by its digest when it is needed.
func (s Store) Clear() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the features of registries: %w", err)
	}
	return nil
}
