package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/ownfile"
	"cloister/state/parts"
)

// maxMeta bounds a description: it names each file that an apply wrote, in 200 bytes.
const maxMeta = 256 << 20

// sound refuses a workspace whose folder is not as this store makes it. A backup or another
// account may have put links, pipes or devices there: whatever is read or written by a name
// below would then be something else.
func (s *Store) sound(name string) error {
	if err := ownfile.Folder(s.dir); err != nil {
		return err
	}
	at := s.folder(name)
	if err := ownfile.Folder(at); err != nil {
		return err
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	for _, e := range entries {
		full := filepath.Join(at, e.Name())
		switch e.Name() {
		case baseFolder, "base": // as an earlier version called it
			err = ownfile.OnlyFiles(full)
		case journalFolder:
			err = ownfile.Folder(full) // what is in it, package apply looks at
		default:
			err = ownfile.File(full)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // another command may have removed it
			return err
		}
	}
	return nil
}

// unsound is what of a description this store did not write.
func (w *Workspace) unsound(name string) string {
	switch {
	case slices.ContainsFunc(w.named(), func(id string) bool { return !isID(id) }):
		return "it names a layer that is none"
	case w.Name != name:
		return "it describes another workspace"
	case !filepath.IsAbs(w.Project) || filepath.Clean(w.Project) != w.Project || strings.ContainsRune(w.Project, 0):
		return "it names a project that is none"
	case w.Agent != "" && !agentName(w.Agent):
		return "it names an agent that is none"
	}
	return ""
}

// isID reports whether newID could have made a name.
func isID(id string) bool {
	return len(id) == 8 && !strings.ContainsFunc(id, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '2' && r <= '7')
	})
}

// soundLayers refuses layers that lie elsewhere. What is in the parts of one, a payload
// wrote: nothing of that is looked at by a path.
func (w *Workspace) soundLayers() error {
	if err := ownfile.FolderOrNone(w.store.fs); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, id := range w.named() {
		if seen[id] {
			continue
		}
		seen[id] = true
		if err := ownfile.FolderOrNone(filepath.Join(w.store.fs, id)); err != nil {
			return err
		}
		for _, p := range parts.All() {
			if err := ownfile.FolderOrNone(w.store.in().At(id, p)); err != nil {
				return err
			}
			if err := ownfile.FolderOrNone(filepath.Join(w.store.fs, id, p.Work())); err != nil {
				return err
			}
		}
	}
	return nil
}
