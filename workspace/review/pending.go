package review

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloister/internal/exactjson"
)

// A Pending is a session whose changes were not looked for yet. Its file is there
// before the command runs and its lock ends with the process: what a crash leaves,
// the next look finds.
type Pending struct {
	Session
	// Also are further folders that it can write.
	Also []string `json:"also,omitempty"`

	store Store
	file  *os.File
}

func (s Store) pending() string { return filepath.Join(s.Dir, "pending") }

// Begin writes down that a session begins.
func (s Store) Begin(p Pending) (*Pending, error) {
	if err := os.MkdirAll(s.pending(), 0o700); err != nil {
		return nil, fmt.Errorf("prepare the review: %w", err)
	}
	f, err := lockedFile(filepath.Join(s.pending(), p.ID))
	if err != nil {
		return nil, fmt.Errorf("prepare the review: session %s: %w", p.ID, err)
	}
	p.store, p.file = s, f
	if err := p.write(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &p, nil
}

// lockedFile makes a file and locks it. A sweep that looks between the two takes the file for
// one that a crash left, and removes it: then it is made again.
func lockedFile(path string) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		busy := held(f)
		if !busy && at(path, f) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if busy {
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // a sweep has it for a moment
		}
	}
	return nil, errors.New("another process has it")
}

// at reports whether an open file is what lies at a path.
func at(path string, f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// remove removes a file that another sweep, or the session itself, may remove first.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write puts one line behind those that are there: the last whole one counts.
func (p *Pending) write() error {
	text, err := exactjson.Marshal(p)
	if err == nil {
		_, err = p.file.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("prepare the review: %w", err)
	}
	return nil
}

// Settle notes what lay there before, and makes the note outlive the machine, once the
// session has lived for a moment: one that is over by then needs no disk to have waited for it.
func (p *Pending) Settle(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(young):
		return errors.Join(p.write(), p.file.Sync())
	}
}

// young is how long a session's note is in memory alone.
const young = 100 * time.Millisecond

// Copied is given what lay there before. Settle notes it.
func (p *Pending) Copied(before map[string]Thing, seen bool) { p.Before, p.Seen = before, seen }

// End adds the changes that were found, and forgets the note.
func (p *Pending) End(changes []Change, now time.Time) error {
	if err := p.store.Add(p.Session, changes, now); err != nil {
		return errors.Join(err, p.file.Close()) // the next look finds them again
	}
	return errors.Join(os.Remove(p.file.Name()), p.file.Close())
}

// Drop forgets a session in which nothing ran.
func (p *Pending) Drop() error { return errors.Join(os.Remove(p.file.Name()), p.file.Close()) }

// deadFor is how long a session's process must be gone before the last look at what
// it changed: what it ran ends with it, but not in the same moment.
const deadFor = time.Second

// Sweep looks for what sessions changed whose processes are gone. find gives the
// changes of one, and an error when they could not be looked for whole.
func (s Store) Sweep(ctx context.Context, find func(ctx context.Context, p *Pending) ([]Change, error)) error {
	entries, err := os.ReadDir(s.pending())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for reviews: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".dead") {
			continue
		}
		errs = append(errs, s.sweep(ctx, filepath.Join(s.pending(), e.Name()), find))
	}
	return errors.Join(errs...)
}

func (s Store) sweep(ctx context.Context, path string,
	find func(ctx context.Context, p *Pending) ([]Change, error)) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil // it ended meanwhile
	}
	defer f.Close()
	if held(f) || !at(path, f) {
		return nil
	}
	p := lastLine(path)
	if p == nil {
		return remove(path) // it ended, or ended before its command ran
	}
	changes, err := find(ctx, p)
	if err == nil {
		err = s.Add(p.Session, changes, time.Now())
	}
	if err != nil {
		return fmt.Errorf("look for what %s changed: %w", p.Name, err)
	}
	// The first look may have been too early.
	mark := path + ".dead"
	if first, err := os.Stat(mark); err != nil {
		return os.WriteFile(mark, nil, 0o600)
	} else if time.Since(first.ModTime()) < deadFor {
		return nil
	}
	return errors.Join(remove(path), remove(mark))
}

func lastLine(path string) *Pending {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var out *Pending
	for line := range strings.Lines(string(text)) {
		p := &Pending{}
		if exactjson.Unmarshal([]byte(line), p) == nil && p.Root != "" {
			out = p
		}
	}
	return out
}
