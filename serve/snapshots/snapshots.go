// Package snapshots keeps what a server says of the files of sandboxes at a moment, in a folder for each
// tenant with a folder for each snapshot.
//
// The promise: a folder without what is said of it is of a server that was killed, and no snapshot; none is
// found by a name that stands for another's ID.
//
// It packs and unpacks no files: serve/files does. Most readers want [Find].
package snapshots

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloister/internal/durable"
	"cloister/serve/narrow"
	"cloister/serve/templates"
)

// Snapshot is the files of a sandbox at a moment.
type Snapshot struct {
	ID      string            `json:"id"`
	Tenant  string            `json:"tenant"`
	Sandbox string            `json:"sandbox"`
	Name    string            `json:"name,omitempty"`
	Created time.Time         `json:"created"`
	Env     map[string]string `json:"env,omitempty"`
	// Network is what the sandbox's maker had taken away: a copy has no more.
	Network narrow.Network `json:"network,omitzero"`
	Made    templates.Made `json:"made,omitzero"` // of what its sandbox was made
}

// prefix begins the ID of each, and said is what its folder says of it.
const (
	prefix = "snap"
	said   = "snapshot.json"
)

// form is that of an ID.
var form = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^` + prefix + `[a-z2-7]{16}$`) })

// NewID makes an ID.
func NewID() string { return prefix + strings.ToLower(rand.Text()[:16]) }

// IsID says that a name has the form of an ID: it could stand for another snapshot's.
func IsID(name string) bool { return form().MatchString(name) }

// Write completes a snapshot whose files are in its folder.
func Write(dir string, s Snapshot) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write down snapshot: %w", err)
	}
	return durable.WriteFile(filepath.Join(dir, said), append(text, '\n'), 0o600)
}

// Sweep removes from a tenant's folder what a server that was killed had half made.
func Sweep(dir string) error {
	list, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	for _, one := range list {
		if _, serr := os.Lstat(filepath.Join(one, said)); errors.Is(serr, os.ErrNotExist) {
			err = errors.Join(err, os.RemoveAll(one))
		}
	}
	if err != nil {
		return fmt.Errorf("remove unfinished snapshots: %w", err)
	}
	return nil
}

// List gives the snapshots of a tenant's folder, the newest first.
func List(dir string) ([]Snapshot, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*", said))
	if err != nil {
		return nil, err
	}
	var out []Snapshot
	for _, name := range names {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // it was removed meanwhile
		}
		var s Snapshot
		if err == nil {
			err = json.Unmarshal(text, &s)
		}
		if err != nil {
			return nil, fmt.Errorf("list snapshots: %w", err)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Snapshot) int { return b.Created.Compare(a.Created) })
	return out, nil
}

// Find finds a snapshot by its ID or its name; nil for none.
func Find(dir, id string) (*Snapshot, error) {
	list, err := List(dir)
	byID := func(s Snapshot) bool { return s.ID == id }
	byName := func(s Snapshot) bool { return s.Name != "" && s.Name == id }
	for _, is := range []func(Snapshot) bool{byID, byName} { // a name takes no ID's place
		if i := slices.IndexFunc(list, is); i >= 0 {
			return &list[i], err
		}
	}
	return nil, err
}
