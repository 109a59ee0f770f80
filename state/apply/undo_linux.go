package apply

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"cloister/internal/ownfile"
	"cloister/state/layers"
)

// Undo takes a finished journal back, as a journal of its own.
func (j *Journal) Undo(dir string) (*Journal, error) {
	done, err := j.Made()
	if err != nil {
		return nil, fmt.Errorf("undo: %w", err)
	}
	if j.alien != "" {
		return nil, fmt.Errorf("undo: journal %s: %s", j.ID, j.alien)
	}
	again, err := restored(dir, j.Project)
	if err != nil {
		return nil, fmt.Errorf("undo: %w", err)
	}
	var steps []Step
	for i, s := range slices.Backward(j.Steps) {
		step := Step{Path: s.Path, Old: again.now(s.Path, done[i]), New: s.Old, ModeOnly: s.ModeOnly, Keep: s.Was}
		if s.Old.Kind == layers.File && !s.ModeOnly {
			name := filepath.Join(j.dir, oldFolder, strconv.Itoa(i))
			step.Open = func() (io.ReadCloser, error) { return ownfile.Open(name) }
		}
		steps = append(steps, step)
	}
	return start(dir, j.Project, j.Label, j.ID, steps)
}

// copies are the files that undos brought back: the same content as before in a new
// file, which an earlier journal must know for its own.
type copies map[string]map[layers.Stamp]layers.Stamp

func restored(dir, project string) (copies, error) {
	list, err := List(dir, project)
	if err != nil {
		return nil, err
	}
	out := copies{}
	for _, u := range list {
		if u.Undoes == "" || u.alien != "" {
			continue
		}
		var done []layers.Node
		if err := read(filepath.Join(u.dir, doneFile), &done); err != nil {
			return nil, err
		}
		for i, s := range u.Steps {
			if s.New.Kind != layers.File || i >= len(done) {
				continue
			}
			if out[s.Path] == nil {
				out[s.Path] = map[layers.Stamp]layers.Stamp{}
			}
			out[s.Path][withoutCtime(s.New.Stamp)] = done[i].Stamp
		}
	}
	return out, nil
}

func withoutCtime(s layers.Stamp) layers.Stamp {
	s.Ctime = 0
	return s
}

// now is the entry that stands for one that a journal made.
func (c copies) now(path string, n layers.Node) layers.Node {
	for range len(c[path]) {
		next, ok := c[path][withoutCtime(n.Stamp)]
		if !ok {
			break
		}
		n.Stamp = next
	}
	return n
}
