// Package trust remembers which devcontainers a person agreed to, by their bytes.
//
// The promise: an agreement is for one project, one devcontainer.json and one digest of
// all that it pulls in; anything else is not agreed to, and neither is what cannot be
// read. It lies in a folder that no cloister sees. The room asks no one and judges
// nothing.
// Most readers want [Store.Holds].
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/internal/durable"
	"cloister/internal/ownfile"
)

// most bounds an agreement: it has what was agreed to, whole.
const most = 64 << 20

// Store is a folder of agreements, a file for each devcontainer.
type Store struct{ dir string }

// Open gives the store in a folder, which is made with the first agreement.
func Open(dir string) Store { return Store{dir} }

// In is the store of an instance that keeps its state in a folder.
func In(state string) Store { return Open(filepath.Join(state, "devcontainers")) }

// Agreement is what a person agreed to.
type Agreement struct {
	Version int       `json:"version"`
	Project string    `json:"project"`
	File    string    `json:"file"`
	Digest  string    `json:"digest"`
	Agreed  time.Time `json:"agreed"`
	// Text is the devcontainer.json, and Pulled the digests of all files, so that a
	// later version is shown as changes to this one.
	Text   string            `json:"text"`
	Pulled map[string]string `json:"pulled"`
	// Sources are those of features that the person agreed to, besides the configuration's.
	Sources []string `json:"sources,omitempty"`
}

func (s Store) name(project, file string) string {
	sum := sha256.Sum256([]byte(project + "\x00" + file))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:16])+".json")
}

// Get is the agreement to a devcontainer; the zero value where there is none.
func (s Store) Get(project, file string) (Agreement, error) {
	var a Agreement
	name := s.name(project, file)
	text, err := ownfile.Read(name, most)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err == nil && (a.Version != 1 || a.Project != project || a.File != file) {
		err = errors.New("it says nothing sound")
	}
	if err != nil {
		return Agreement{}, fmt.Errorf("read the trust in a devcontainer: %s: %w", name, err)
	}
	return a, nil
}

// Holds reports whether exactly these bytes were agreed to.
func (s Store) Holds(project, file, digest string) (bool, error) {
	a, err := s.Get(project, file)
	return err == nil && digest != "" && a.Digest == digest, err
}

// Put remembers an agreement.
func (s Store) Put(a Agreement) error {
	a.Version = 1
	text, err := json.MarshalIndent(a, "", "  ")
	if err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err == nil {
		err = durable.WriteFile(s.name(a.Project, a.File), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember the trust in a devcontainer: %w", err)
	}
	return nil
}

// Sources are all sources of features that a person agreed to for a project.
func (s Store) Sources(project string) ([]string, error) {
	var out []string
	err := s.each(func(_ string, a Agreement) error {
		if a.Project == project {
			out = append(out, a.Sources...)
		}
		return nil
	})
	slices.Sort(out)
	return slices.Compact(out), err
}

// Forget removes every agreement to a project's devcontainers.
func (s Store) Forget(project string) error {
	return s.each(func(name string, a Agreement) error {
		if a.Project != project && !strings.HasPrefix(a.Project, project+"/") {
			return nil
		}
		return os.Remove(name)
	})
}

// each calls do with every agreement that can be read, and its file.
func (s Store) each(do func(name string, a Agreement) error) error {
	names, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return fmt.Errorf("look through the trust in devcontainers: %w", err)
	}
	var errs []error
	for _, name := range names {
		text, err := ownfile.Read(name, most)
		var a Agreement
		if err == nil && json.Unmarshal(text, &a) == nil {
			errs = append(errs, do(name, a))
		}
	}
	return errors.Join(errs...)
}
