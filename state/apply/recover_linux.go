package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cloister/state/layers"
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
		settled, serr := layers.Exists(filepath.Join(at, settledFile))
		if serr != nil {
			err = errors.Join(err, fmt.Errorf("recover journals: %w", serr))
			continue
		}
		if settled {
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
		kept, kerr := layers.Exists(at)
		if err = errors.Join(err, rerr, kerr); kerr == nil && !kept {
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
	done, err := j.has(doneFile)
	if err != nil {
		return "", fmt.Errorf("recover journal: %w", err)
	}
	if done {
		return "", r.settle()
	}
	staged, err := j.has(stagedFile)
	if err != nil {
		return "", fmt.Errorf("recover journal: %w", err)
	}
	if !staged {
		return "a change of " + j.Project + " was interrupted before it began: nothing was changed",
			errors.Join(r.unstage(), j.abandon())
	}
	if err := read(filepath.Join(j.dir, stagedFile), &r.staged); err != nil {
		return "", fmt.Errorf("recover journal: %w", err)
	}
	if len(r.staged) != len(r.Steps) {
		return "", fmt.Errorf("recover journal %s: %d steps, %d staged", r.ID, len(r.Steps), len(r.staged))
	}
	goesBack, err := j.has(backFile)
	if err != nil {
		return "", fmt.Errorf("recover journal: %w", err)
	}
	if goesBack {
		err := r.resumeBack()
		return "an interrupted change of " + j.Project + " was taken back" + r.keptBeside(), err
	}
	err = r.carryOut()
	if _, half := errors.AsType[*halfBack](err); half {
		return "", err // the journal has what is still to be put back
	}
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
	if err := r.rollBack(n); err != nil {
		return err // the journal has what is still to be put back
	}
	if err := r.leave(); err != nil {
		return err
	}
	return r.abandon()
}
