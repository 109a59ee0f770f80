package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Recover finishes or rolls back the journals that a crash left, and says which. back are
// the steps of those that were rolled back.
func Recover(dir, project string) (notes []string, back []Step, err error) {
	entries, err := folders(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("recover journals: %w", err)
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		if exists(filepath.Join(at, settledFile)) {
			continue
		}
		j, lerr := load(at, project)
		if errors.Is(lerr, fs.ErrNotExist) {
			err = errors.Join(err, os.RemoveAll(at)) // it never began
			continue
		}
		if lerr != nil {
			err = errors.Join(err, lerr)
			continue
		}
		if j.alien != "" {
			notes = append(notes, fmt.Sprintf("an interrupted change is left as it is: %s; look at %s, and remove it",
				j.alien, at))
			continue
		}
		note, rerr := j.recover()
		if note != "" {
			notes = append(notes, note)
		}
		if err = errors.Join(err, rerr); !exists(at) {
			back = append(back, j.Steps...)
		}
	}
	return notes, back, err
}

func (j *Journal) recover() (note string, err error) {
	r, err := j.open()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errReplaced) {
		return fmt.Sprintf("an interrupted change cannot be finished: %v", err), nil
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if j.has(doneFile) {
		return "", r.settle()
	}
	if !j.has(stagedFile) {
		return "a change of " + j.Project + " was interrupted before it began: nothing was changed",
			errors.Join(r.unstage(), j.abandon())
	}
	if err := read(filepath.Join(j.dir, stagedFile), &r.staged); err != nil {
		return "", fmt.Errorf("recover journal: %w", err)
	}
	if len(r.staged) != len(r.Steps) {
		return "", fmt.Errorf("recover journal %s: %d steps, %d staged", r.ID, len(r.Steps), len(r.staged))
	}
	if j.has(backFile) {
		return "an interrupted change of " + j.Project + " was taken back", r.resumeBack()
	}
	err = r.carryOut()
	if conflicts := Conflicts(nil); errors.As(err, &conflicts) {
		return fmt.Sprintf("an interrupted change of %s was taken back: %v", j.Project, conflicts), j.abandon()
	}
	return "an interrupted change of " + j.Project + " was finished", err
}

func (r *run) resumeBack() error {
	var n int
	if err := read(filepath.Join(r.dir, backFile), &n); err != nil {
		return fmt.Errorf("recover journal: %w", err)
	}
	if n < 0 || n > len(r.Steps) {
		return fmt.Errorf("recover journal %s: %d steps of %d to take back", r.ID, n, len(r.Steps))
	}
	return errors.Join(r.rollBack(n), r.unstage(), r.abandon())
}
