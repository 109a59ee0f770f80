// Package restored notes which files of a project are again what they were, because an
// apply was undone: a new file with the old content.
//
// The workspace that undid knows its own. To the others that began before the apply, such
// as the forks beside it, the new file is no change either; without a note it would stand
// against their own apply, also once the one that undid is discarded.
//
// The newest 100,000 are kept in one file of the store's folder for each project. What is
// not noted is a conflict that a person looks at, never a change that is missed.
package restored

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cloister/internal/durable"
	"cloister/internal/exactjson"
	"cloister/internal/ownfile"
	"cloister/state/layers"
)

const (
	prefix  = "restored-"
	most    = 100_000
	maxFile = 64 << 20 // bytes
)

// File is one that an undo brought back.
type File struct {
	Path string       `json:"path"`
	Is   layers.Stamp `json:"is"`
	Was  layers.Stamp `json:"was"`     // the file that the apply replaced or removed
	At   int64        `json:"applied"` // when the apply began, in nanoseconds since 1970
}

func file(dir, project string) string {
	sum := sha256.Sum256([]byte(project))
	return filepath.Join(dir, prefix+hex.EncodeToString(sum[:16])+".json")
}

// Note notes files of a project in the folder of a store.
func Note(dir, project string, files []File) error {
	if len(files) == 0 {
		return nil
	}
	return durable.Update(file(dir, project), 0o600, func(text []byte) ([]byte, error) {
		var list []File
		_ = exactjson.Unmarshal(text, &list) // a list that cannot be read begins anew
		list = append(list, files...)
		return exactjson.Marshal(list[max(0, len(list)-most):])
	})
}

// Keep removes what is noted of all projects but these.
func Keep(dir string, projects []string) error {
	list, err := filepath.Glob(filepath.Join(dir, prefix+"*.json"))
	if err != nil {
		return fmt.Errorf("forget what was undone: %w", err)
	}
	for _, p := range projects {
		list = slices.DeleteFunc(list, func(at string) bool { return at == file(dir, p) })
	}
	for _, at := range list {
		err = errors.Join(err, os.Remove(at))
	}
	return err
}

// Files are those of one project, by what they are now.
type Files map[string]map[layers.Stamp]File

// Read reads what is noted of a project. A list that cannot be read has nothing.
func Read(dir, project string) Files {
	text, err := ownfile.Read(file(dir, project), maxFile)
	var list []File
	if errors.Join(err, exactjson.Unmarshal(text, &list)) != nil {
		return nil
	}
	out := Files{}
	for _, f := range list {
		if out[f.Path] == nil {
			out[f.Path] = map[layers.Stamp]File{}
		}
		out[f.Path][f.Is] = f
	}
	return out
}

// coarse is how far the clock of files may lag behind that of programs.
const coarse = 20 * time.Millisecond

// Before gives what is at path was before, the last first, as far as undos brought it back
// from applies that began after the clock of files said since.
func (f Files) Before(path string, is layers.Stamp, since int64) iter.Seq[layers.Stamp] {
	return func(yield func(layers.Stamp) bool) {
		for range len(f[path]) {
			from, ok := f[path][is]
			if !ok || from.At-int64(coarse) <= since || !yield(from.Was) {
				return
			}
			is = from.Was
		}
	}
}
