// Package homes knows the private homes of projects on disk.
//
// The promise: it follows no link in a home, whatever a payload made there; it removes
// nothing outside of one, also where modes deny that to the owner; it says of each home
// whose it is, as far as anyone noted that.
//
// It does not know whether a cloister lives in one: a command that removes one asks the guardian.
//
// Most readers want [List].
package homes

import (
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
	"cloister/internal/ownfile"
	"cloister/state/layers"
)

// Home is one private home.
type Home struct {
	Dir     string
	Project string // the project's top; "" where that is not known
	Used    time.Time
}

// Dir is where all of them lie.
func Dir(data string) string { return filepath.Join(data, "homes") }

// Of is the private home of a project, by its host path.
func Of(data, project string) string {
	sum := sha256.Sum256([]byte(project))
	return filepath.Join(Dir(data), hex.EncodeToString(sum[:8]))
}

// Make makes the private home of a project, or opens the one that is there to its owner: an
// earlier payload may have closed it. Something else in its place, a link above all, is an
// error.
func Make(data, project string) (string, error) {
	home := Of(data, project)
	if err := os.MkdirAll(Dir(data), 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(home, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := ownfile.Folder(home); err != nil {
		return "", err
	}
	return home, os.Chmod(home, 0o700)
}

// maxNote bounds a note: it is a path.
const maxNote = 8 << 10

// noteOf is the file that says whose a home is. It lies beside it, where no payload
// writes.
func noteOf(dir string) string { return dir + ".project" }

// Note says whose a home is, for List.
func Note(data, project string) error {
	name := noteOf(Of(data, project))
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	if err := durable.WriteFile(name, []byte(project+"\n"), 0o600); err != nil {
		return fmt.Errorf("note whose a home is: %w", err)
	}
	return nil
}

// List finds every home. Known are projects that may have one without a note.
func List(data string, known []string) ([]Home, error) {
	entries, err := os.ReadDir(Dir(data))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list homes: %w", err)
	}
	byDir := map[string]string{}
	for _, p := range known {
		byDir[Of(data, p)] = p
	}
	var out []Home
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() {
			continue
		}
		h := Home{Dir: filepath.Join(Dir(data), e.Name()), Used: info.ModTime()}
		h.Project = byDir[h.Dir]
		if text, err := ownfile.Read(noteOf(h.Dir), maxNote); err == nil {
			// A note that was put beside another home says nothing of this one.
			if p := strings.TrimSuffix(string(text), "\n"); Of(data, p) == h.Dir {
				h.Project = p
			}
		}
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b Home) int { return strings.Compare(a.Project+"\x00"+a.Dir, b.Project+"\x00"+b.Dir) })
	return out, nil
}

// Remove removes a home with its note.
func (h Home) Remove() error {
	err := layers.RemoveAll(filepath.Dir(h.Dir), filepath.Base(h.Dir))
	if err == nil {
		err = os.Remove(noteOf(h.Dir))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the private home of %s: %w", h.Project, err)
	}
	return nil
}

// caches are folders of a home with what its programs fetch again when they miss it.
var caches = []string{".cache", ".npm/_cacache", ".npm/_logs", "go/pkg/mod", ".cargo/registry", ".gradle/caches",
	".bun/install/cache"}

// Caches are the folders of a home that hold nothing but copies.
func (h Home) Caches() []string {
	var out []string
	root, err := os.OpenRoot(h.Dir)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	for _, rel := range caches {
		at, ok := "", true
		for part := range strings.SplitSeq(rel, "/") {
			at = filepath.Join(at, part)
			info, err := root.Lstat(at)
			ok = ok && err == nil && info.IsDir() // a link in its place leads elsewhere
		}
		if ok {
			out = append(out, rel)
		}
	}
	return out
}

// RemoveCache removes one of Caches. A cloister that begins meanwhile can lead it
// nowhere else: RemoveAll follows no link in the last two folders of a path, and the
// caches lie no deeper.
//
// A program may have taken the right to write from the folder around it.
func (h Home) RemoveCache(rel string) error {
	if err := h.open(filepath.Dir(rel)); err != nil {
		return err
	}
	return layers.RemoveAll(filepath.Join(h.Dir, filepath.Dir(rel)), filepath.Base(rel))
}

// open lets the owner change what is in a folder of the home.
func (h Home) open(rel string) error {
	root, err := os.OpenRoot(h.Dir)
	if err != nil {
		return fmt.Errorf("open home: %w", err)
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(rel)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o300 == 0o300 {
		return nil // it needs none, or is none of ours, which RemoveAll tells
	}
	if err := root.Chmod(rel, info.Mode().Perm()|0o700); err != nil {
		return fmt.Errorf("open folder of home: %w", err)
	}
	return nil
}

// Size is what a folder's files take on the disk, each once: as du says it.
func Size(dir string) int64 {
	var sum int64
	seen := map[[2]uint64]bool{}
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be looked at is not counted
		}
		if info, err := d.Info(); err == nil {
			bytes, id, links := onDisk(info)
			if links > 1 && !d.IsDir() {
				if seen[id] {
					return nil
				}
				seen[id] = true
			}
			sum += bytes
		}
		return nil
	})
	return sum
}
