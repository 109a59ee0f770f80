// Package projects remembers the projects that cloisters were used in, and joins what is
// said of one: by its user, by its repository, and by the projects around it.
//
// Promise: what a repository asks for beyond what the user gives applies only once the user
// agreed to exactly those bytes, and what a project around takes away is not given back by
// anything inside it.
//
// It asks no person and prints nothing: package cmd/cloister does.
//
// Most readers want [Register], and [Known.Over].
package projects

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/internal/durable"
	"cloister/internal/exactjson"
	"cloister/internal/ownfile"
	"cloister/internal/xdg"
)

// Known is what is remembered of a project since its first use.
type Known struct {
	Name      string    `json:"name"`
	Root      string    `json:"root"`
	FirstUsed time.Time `json:"first_used"`
	// Trusted is the proposal that the person agreed to, whole: what changed
	// since is shown against it.
	Trusted string `json:"trusted,omitempty"`
	Digest  string `json:"trusted_digest,omitempty"`
}

// Folder is where projects are remembered.
func Folder(d xdg.Dirs) string { return filepath.Join(d.State, "projects") }

// file is where k is remembered.
func (k Known) file(d xdg.Dirs) string { return fileOf(d, k.Root) }

func fileOf(d xdg.Dirs, root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(Folder(d), hex.EncodeToString(sum[:8])+".json")
}

// SettingsFile is the user's own file for a project.
func (k Known) SettingsFile(d xdg.Dirs) string {
	return filepath.Join(d.Config, "projects", k.Name+".yaml")
}

// Read reads what is remembered of the project in a folder.
func Read(d xdg.Dirs, root string) (Known, error) { return read(fileOf(d, root)) }

// Unused is a project that was not used yet.
func Unused(root string) Known { return Known{Name: filepath.Base(root), Root: root} }

// ReadAll reads every known project. bad gets the name of one that cannot be read, and the
// reason; the others are read.
func ReadAll(d xdg.Dirs, bad func(name string, err error)) ([]Known, error) {
	files, err := filepath.Glob(filepath.Join(Folder(d), "*.json"))
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	var out []Known
	for _, name := range files {
		k, err := read(name)
		if err != nil {
			bad(name, err)
			continue
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(x, y Known) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Root, y.Root)) })
	return out, nil
}

// maxKnown bounds a remembered file: it has a proposal, whole.
const maxKnown = 64 << 20

// read reads one of the remembered files.
func read(name string) (Known, error) {
	var k Known
	text, err := ownfile.Read(name, maxKnown)
	if err != nil {
		return k, fmt.Errorf("read project: %w", err)
	}
	if err := exactjson.Unmarshal(text, &k); err != nil || !filepath.IsAbs(k.Root) || k.Name == "" {
		return k, fmt.Errorf("read project: %s says nothing sound", name)
	}
	return k, nil
}

// Register finds a project by its path, and remembers one at its first use. What says
// nothing sound is kept aside here alone, under the lock, and reported to complain:
// registration and trust end with that.
func Register(d xdg.Dirs, root string, complain func(error)) (Known, error) {
	name := fileOf(d, root)
	k, err := read(name)
	if _, unread := errors.AsType[*fs.PathError](err); err == nil || unread && !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	alone, err := Lock(d)
	if err != nil {
		return k, fmt.Errorf("remember project: %w", err)
	}
	defer func() { _ = alone.Close() }()
	if k, err := read(name); err == nil {
		return k, nil // remembered by another meanwhile
	}
	all, err := ReadAll(d, func(file string, err error) {
		if _, unread := errors.AsType[*fs.PathError](err); !unread && os.Rename(file, file+".bad") == nil {
			err = fmt.Errorf("%w; it is kept as %s.bad, and its project and your trust in it are forgotten", err, file)
		}
		complain(err)
	})
	if err != nil {
		return k, err
	}
	k = Unused(root)
	k.FirstUsed = time.Now().UTC().Round(0)
	if slices.ContainsFunc(all, func(o Known) bool { return o.Name == k.Name }) {
		k.Name += "-" + strings.TrimSuffix(filepath.Base(name), ".json")[:6]
	}
	return k, k.Save(d)
}

// Lock waits until no other process registers, trusts or forgets a project. Closing the file
// lets the next one go on.
func Lock(d xdg.Dirs) (*os.File, error) {
	if err := os.MkdirAll(Folder(d), 0o700); err != nil {
		return nil, err
	}
	return durable.Lock(filepath.Join(Folder(d), ".lock"))
}

// Save remembers k.
func (k Known) Save(d xdg.Dirs) error {
	text, err := exactjson.MarshalIndent(k, "", "  ")
	if err == nil {
		err = durable.WriteFile(k.file(d), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember project: %w", err)
	}
	return nil
}

// Forget removes what is remembered of k, and its trust. The error is fs.ErrNotExist of a
// project that is not known.
func (k Known) Forget(d xdg.Dirs) error { return os.Remove(k.file(d)) }

// Reread reads k anew.
func (k Known) Reread(d xdg.Dirs) (Known, error) { return read(k.file(d)) }
