// Package review keeps what sessions changed that programs of the host may run, until
// a person has decided about each change.
//
// Promise: a change is waiting from the end of its session, or from the first look
// after a crash, until it is kept, reverted or trusted; a decision holds for exactly
// the bytes that were shown; no link is followed. What a file held before is known
// where it could be copied before the session changed it, and said where not.
//
// It does not look for changes (room workspace does), and neither asks nor records.
//
// Most readers want [Store.Add] and [Store.Decide].
package review

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
	"cloister/internal/exactjson"
	"cloister/internal/ownfile"
)

// A State is how far a change is.
type State string

// The states.
const (
	Waiting  State = "waiting"
	Kept     State = "kept"
	Reverted State = "reverted"
	Trusted  State = "trusted"
)

// decided bounds the changes of a project that are remembered after a decision.
const decided = 1000

// An Entry is one changed path.
type Entry struct {
	Path    string    `json:"path"` // relative to the project, or absolute
	By      string    `json:"by"`   // the cloister that changed it
	Why     string    `json:"why"`  // what of the host obeys it
	State   State     `json:"state"`
	Session string    `json:"session"`
	At      time.Time `json:"at"`
	Is      Thing     `json:"is"` // at the last look
	// Before is what lay there when the session began; nil where nothing is known.
	Before *Thing `json:"before,omitempty"`
}

// Full is the whole path.
func (e Entry) Full(root string) string {
	if filepath.IsAbs(e.Path) {
		return e.Path
	}
	return filepath.Join(root, e.Path)
}

// A Thing is what lies at a path.
type Thing struct {
	Kind   Kind        `json:"kind"`
	Mode   fs.FileMode `json:"mode,omitempty"` // permissions
	Digest string      `json:"digest,omitempty"`
	Size   int64       `json:"size,omitempty"`
}

// Kind is what a Thing is.
type Kind string

// The kinds.
const (
	Nothing Kind = "nothing"
	File    Kind = "file"
	Link    Kind = "link" // its text is the target
	Other   Kind = "other"
)

// same reports whether two are one thing, to whoever would run it.
func (t Thing) same(o Thing) bool {
	return t.Kind == o.Kind && t.Digest == o.Digest && t.Mode&0o111 == o.Mode&0o111
}

// A Project is all that is kept of one project.
type Project struct {
	Root    string           `json:"root"`
	Main    string           `json:"main"` // of a linked working tree, the main one
	Entries []Entry          `json:"entries"`
	Trusted map[string]Thing `json:"trusted,omitempty"`
}

// Waiting counts what waits.
func (p *Project) Waiting() int {
	n := 0
	for _, e := range p.Entries {
		if e.State == Waiting {
			n++
		}
	}
	return n
}

// A Store is a folder, outside of what any cloister sees.
type Store struct{ Dir string }

func (s Store) file(root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(s.Dir, "projects", hex.EncodeToString(sum[:12])+".json")
}

// Load is what is kept of a project; an empty one where nothing is.
func (s Store) Load(root string) (*Project, error) { return read(s.file(root), root) }

// Bounds of what is kept: of one project, and of a copy.
const (
	maxKept   = 256 << 20
	maxCopied = 2 << 20
)

func read(file, root string) (*Project, error) {
	p := &Project{Root: root, Main: root}
	text, err := ownfile.Read(file, maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = exactjson.Unmarshal(text, p)
	}
	if err != nil {
		return nil, fmt.Errorf("read the review of %s: %w", root, err)
	}
	return p, nil
}

// All are the projects that something is kept of.
func (s Store) All() ([]*Project, error) {
	names, err := filepath.Glob(filepath.Join(s.Dir, "projects", "*.json"))
	if err != nil {
		return nil, err
	}
	var out []*Project
	for _, name := range names {
		p, err := read(name, name)
		if err != nil {
			return out, err
		}
		out = append(out, p)
	}
	return out, nil
}

// change reads a project, changes it and writes it, one at a time.
func (s Store) change(root string, do func(p *Project) error) error {
	if err := os.MkdirAll(filepath.Join(s.Dir, "projects"), 0o700); err != nil {
		return fmt.Errorf("keep a review: %w", err)
	}
	held, err := durable.Lock(filepath.Join(s.Dir, "lock"))
	if err != nil {
		return fmt.Errorf("keep a review: %w", err)
	}
	defer held.Close()
	p, err := s.Load(root)
	if err != nil {
		return err
	}
	doErr := do(p)
	p.forget()
	text, err := exactjson.Marshal(p)
	if err == nil {
		err = durable.WriteFile(s.file(root), append(text, '\n'), 0o600)
	}
	if err != nil {
		err = fmt.Errorf("keep a review: %w", err)
	}
	return errors.Join(doErr, err)
}

// forget drops the oldest decisions beyond the bound, and no change that waits.
func (p *Project) forget() {
	over := len(p.Entries) - p.Waiting() - decided
	p.Entries = slices.DeleteFunc(p.Entries, func(e Entry) bool {
		if e.State == Waiting || over <= 0 {
			return false
		}
		over--
		return true
	})
}

// A Change is one path that a session changed.
type Change struct {
	Path, Why string
	// New tells that nothing lay there when the session began: what did is protected.
	New bool
	// Unseen tells that no look before the session went where it lies.
	Unseen bool
	// Mended tells that Cloister itself put it back after the session: what lay there
	// before is not known, and git needs what lies there now.
	Mended bool
}

// A Session is whose changes are added.
type Session struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Root string `json:"root"`
	Main string `json:"main"`
	// Before are copies that were made of what lay at paths, by path.
	Before map[string]Thing `json:"before,omitempty"`
	// Seen tells that a path of which there is no copy held nothing.
	Seen  bool      `json:"seen,omitempty"`
	Began time.Time `json:"began"`
}

// Add makes changes wait. What is trusted, byte by byte, does not.
func (s Store) Add(from Session, changes []Change, now time.Time) error {
	if len(changes) == 0 {
		return nil
	}
	return s.change(from.Root, func(p *Project) error {
		p.Main = from.Main
		at := map[string]int{}
		for i, e := range p.Entries {
			if e.State == Waiting {
				at[e.Path] = i
			}
		}
		var errs []error
		for _, c := range changes {
			is, _, err := inspect(p.Root, c.Path, 0)
			if err != nil {
				is = Thing{Kind: Other}
			}
			if t, ok := p.Trusted[c.Path]; ok && t.same(is) {
				continue
			}
			e := Entry{Path: c.Path, By: from.Name, Why: c.Why, State: Waiting, Session: from.ID, At: now.UTC(), Is: is}
			if c.Mended {
				e.Before = nil
			} else if b, ok := from.Before[c.Path]; ok {
				e.Before = &b
			} else if from.Seen && !c.Unseen || c.New {
				e.Before = &Thing{Kind: Nothing}
			}
			if i, ok := at[c.Path]; ok {
				// What lay there before the first change that no person looked at.
				if !c.Mended {
					e.Before = p.Entries[i].Before
				}
				p.Entries[i] = e
				continue
			}
			at[c.Path] = len(p.Entries)
			p.Entries = append(p.Entries, e)
		}
		return errors.Join(errs...)
	})
}

// A Decision is what a person does with a change.
type Decision string

// The decisions.
const (
	Keep   Decision = "keep"
	Revert Decision = "revert"
	Trust  Decision = "trust"
)

// Clean is the word for a path that cloister project clean removes: no change of it has
// to wait, and it is recorded alone.
const Clean Decision = "clean"

// State is where a decision leads; "" for a word that is none.
func (d Decision) State() State {
	return map[Decision]State{Keep: Kept, Revert: Reverted, Trust: Trusted}[d]
}

// Look takes what lies at the waiting paths now for what a person is shown. Those at
// which lies what lay there before, or nothing any more, wait no longer.
func (s Store) Look(root string) (*Project, error) {
	p, err := s.Load(root)
	if err != nil || p.Waiting() == 0 {
		return p, err
	}
	err = s.change(root, func(now *Project) error {
		now.Entries = slices.DeleteFunc(now.Entries, func(e Entry) bool {
			is, _, err := inspect(root, e.Path, 0)
			return e.State == Waiting && err == nil && (is.Kind == Nothing || e.Before != nil && is.same(*e.Before))
		})
		for i := range now.Entries {
			e := &now.Entries[i]
			if is, _, err := inspect(root, e.Path, 0); e.State == Waiting && err == nil {
				e.Is = is
			}
		}
		p = now
		return nil
	})
	return p, err
}

// Decide decides about one waiting path.
func (s Store) Decide(root, path string, d Decision, allow func(e Entry) error) (Entry, error) {
	all, err := s.DecideAll(root, []string{path}, d, allow)
	if err != nil {
		return Entry{}, err
	}
	return all[0].Entry, all[0].Err
}

// An Outcome is what became of the decision about one path.
type Outcome struct {
	Entry Entry // without an error
	Err   error
}

// DecideAll decides about waiting paths, one outcome for each in their order, and writes the
// project's state once. allow is asked about each once its file is known to be what was
// shown, and before anything is done: it records. An error is one of the state as a whole.
func (s Store) DecideAll(root string, paths []string, d Decision, allow func(e Entry) error) ([]Outcome, error) {
	if d.State() == "" {
		return nil, fmt.Errorf("review: %q is no decision", d)
	}
	out := make([]Outcome, len(paths))
	err := s.change(root, func(p *Project) error {
		waiting := map[string][]*Entry{}
		for i := range p.Entries {
			if e := &p.Entries[i]; e.State == Waiting {
				waiting[e.Path] = append(waiting[e.Path], e)
			}
		}
		for i, path := range paths {
			of := waiting[path]
			if len(of) == 0 {
				out[i].Err = &NotWaiting{path}
				continue
			}
			if out[i].Err = s.decide(p, of[0], d, allow); out[i].Err == nil {
				out[i].Entry, waiting[path] = *of[0], of[1:]
			}
		}
		return nil
	})
	return out, err
}

// decide decides about one entry of a project.
func (s Store) decide(p *Project, e *Entry, d Decision, allow func(e Entry) error) error {
	is, _, err := inspect(p.Root, e.Path, 0)
	if err != nil {
		return fmt.Errorf("review %s: %w", e.Path, err)
	}
	if !is.same(e.Is) {
		return &Moved{e.Path}
	}
	if d == Revert && is.Kind != Nothing {
		if err := e.Revertible(); err != nil {
			return err
		}
	}
	if err := allow(*e); err != nil {
		return err
	}
	switch d {
	case Keep, Clean:
	case Trust:
		if p.Trusted == nil {
			p.Trusted = map[string]Thing{}
		}
		p.Trusted[e.Path] = is
	case Revert:
		if err := s.restore(p.Root, e.Path, is, e.Before); err != nil {
			return fmt.Errorf("revert %s: %w", e.Path, err)
		}
	}
	e.State = d.State()
	return nil
}

// NotWaiting is the error for a path of which no change waits.
type NotWaiting struct{ Path string }

func (e *NotWaiting) Error() string { return "review: no change of " + e.Path + " waits" }

// Moved is the error for a file that is not what was shown any more.
type Moved struct{ Path string }

func (e *Moved) Error() string { return "review: " + e.Path + " changed since it was shown" }

// Hints are the words of what to do.
func (e *Moved) Hints() []string { return []string{"look again: cloister review"} }

// NoCopy is the error for a file of which the earlier content is not known.
type NoCopy struct{ Path string }

func (e *NoCopy) Error() string {
	return "revert " + e.Path + ": there is no copy of what it held when the session began"
}

// Hints are the words of what to do.
func (e *NoCopy) Hints() []string {
	return []string{"put it right or remove it yourself, then: cloister review --keep"}
}

// Texts are what lay at a path before, and what lies there now, for a diff.
func (s Store) Texts(root string, e Entry) (before, after []byte, note string) {
	switch {
	case e.Before == nil:
		note = "what it held when the session began is not known"
	case e.Before.Kind == File || e.Before.Kind == Link:
		text, err := ownfile.Read(s.blob(e.Before.Digest), maxCopied)
		if err != nil {
			note = "the copy of what it held cannot be read"
		}
		before = text[:min(len(text), MaxShown)]
	}
	is, text, err := inspect(root, e.Path, MaxShown)
	switch {
	case err != nil:
		note = strings.TrimPrefix(note+"; "+err.Error(), "; ")
	case is.Kind == Link:
		note = strings.TrimPrefix(note+"; a link", "; ")
	case is.Kind == Other:
		note = strings.TrimPrefix(note+"; neither a file nor a link", "; ")
	case is.Size > int64(len(text)):
		note = strings.TrimPrefix(fmt.Sprintf("%s; only %d of %d bytes are shown", note, len(text), is.Size), "; ")
	}
	if e.Before != nil && e.Before.Kind == File && is.Kind == File && is.Mode&0o111 != e.Before.Mode&0o111 {
		note = strings.TrimPrefix(note+"; who may run it changed", "; ")
	}
	return before, text, note
}

// MaxShown bounds a text that a person is shown.
const MaxShown = 256 << 10
