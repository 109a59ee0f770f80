package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloister/internal/durable"
	"cloister/internal/exactjson"
	"cloister/internal/ownfile"
	"cloister/internal/realpath"
	"cloister/state/apply"
	"cloister/state/layers"
	"cloister/state/restored"

	"golang.org/x/sys/unix"
)

// Running is the error for what can be done to a stopped cloister alone.
type Running struct{ Name string }

// Error names the cloister.
func (r *Running) Error() string { return fmt.Sprintf("cloister %s is running", r.Name) }

// meta is what the store knows of one workspace.
type meta struct {
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Project string    `json:"project"`
	Dev     uint64    `json:"dev"`
	Inode   uint64    `json:"inode"`
	Created time.Time `json:"created"`
	// Since is the file system's clock when the workspace began, in nanoseconds since
	// 1970: what the project's own files changed after it, someone else did.
	Since  int64    `json:"since"`
	Upper  string   `json:"upper"`
	Layers []string `json:"layers,omitempty"`
	Agent  string   `json:"agent,omitempty"` // of the last session
	// Conversation is the one that the agent had last.
	Conversation string `json:"conversation,omitempty"`
	Parent       string `json:"parent,omitempty"` // NAME@CHECKPOINT of a fork
	Head         string `json:"head,omitempty"`   // the newest checkpoint below the upper
	// Written are the entries of the project that an apply or undo made, as they were
	// then: no change of someone else's.
	Written     map[string]layers.Stamp `json:"written,omitempty"`
	Journal     string                  `json:"journal,omitempty"` // the newest that Written knows
	Checkpoints []Checkpoint            `json:"checkpoints,omitempty"`
	Sums        map[string]string       `json:"sums,omitempty"` // digests of layers
}

// named are the layers that a description names: the upper first, one of several
// checkpoints as often as they are.
func (m *meta) named() []string {
	list := append([]string{m.Upper}, m.Layers...)
	for _, c := range m.Checkpoints {
		list = append(list, c.Layers...)
		if c.Memory != "" {
			list = append(list, c.Memory)
		}
	}
	return list
}

// Workspace is one kept workspace, locked for a change of its description.
type Workspace struct {
	meta
	store   *Store
	lock    *os.File
	shared  *os.File       // held against a removal of layers
	back    restored.Files // once it was asked for
	thinned bool           // a quota took checkpoints away, whose layers no one needs
	// Recovered says what became of changes that a crash had interrupted.
	Recovered []string
	// Sealed is notified of a checkpoint before it counts, and Known is asked for the digest
	// with which one was recorded ("" where no record is left). nil does without.
	Sealed func(Checkpoint) error
	Known  func(Checkpoint) (digest string, err error)
	// Remembers gives the folder with the memory of a checkpoint that was just made, which
	// lies in Folder and is called like a layer. nil: there is none.
	Remembers func(checkpoint string) (folder string, err error)
}

// Folder is where layers lie. What no workspace names of it, the next Collect removes.
func (w *Workspace) Folder() string { return w.store.fs }

// What lies in the folder of a workspace, beside its locks.
const (
	metaFile      = "workspace.json"
	baseFolder    = "bases"
	journalFolder = "journals"
)

// recover finishes or takes back what a crash interrupted.
func (w *Workspace) recover() error {
	notes, back, err := apply.Recover(w.journals(), w.Project)
	w.Recovered = notes
	if err == nil && len(back) > 0 {
		err = w.putBack(back)
	}
	if err != nil {
		return err
	}
	j, err := apply.Newest(w.journals(), w.Project)
	if err != nil || j == nil || j.ID == w.Journal {
		return err
	}
	return w.wrote(j)
}

// ownFolder finds the layers where another call named another owner.
func (w *Workspace) ownFolder() error {
	s, err := Open(filepath.Dir(w.store.dir), w.Project)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the project is gone; its changes are still there
	}
	if err == nil {
		s.Quota, w.store = w.store.Quota, s
	}
	return err
}

func (w *Workspace) load(name string) error {
	at := filepath.Join(w.store.folder(name), metaFile)
	text, err := ownfile.Read(at, maxMeta)
	if err != nil {
		return fmt.Errorf("read workspace: %w", err)
	}
	if err := exactjson.Unmarshal(text, &w.meta); err != nil {
		return fmt.Errorf("read workspace %s: %w", at, err)
	}
	if w.Version == 1 {
		w.Version = version
		for i := range w.Checkpoints {
			w.Checkpoints[i].Digest = "" // it was another one
		}
	}
	if w.Version != version {
		return fmt.Errorf("read workspace %s: it has version %d; this program knows %d", at, w.Version, version)
	}
	if why := w.unsound(name); why != "" {
		return &ownfile.Strange{Path: at, Why: why}
	}
	return nil
}

func (w *Workspace) save() error {
	text, err := exactjson.Marshal(w.meta)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(w.store.folder(w.Name), metaFile), text, 0o600)
}

// Close gives the lock back.
func (w *Workspace) Close() error {
	err := errors.Join(w.lock.Close(), w.shared.Close())
	if w.thinned && err == nil {
		_, err = w.store.Collect(false)
	}
	return err
}

func (w *Workspace) journals() string { return filepath.Join(w.store.folder(w.Name), journalFolder) }

// Use is a workspace that a session has mounted. It is held until Close.
type Use struct {
	Mount Mount
	Name  string
	lock  *os.File
	store *Store
	upper string
}

// Close says that the session has ended.
func (u *Use) Close() error {
	if u == nil {
		return nil
	}
	return u.lock.Close()
}

// Astray is the error for a workspace whose project is not where it was, or another one.
type Astray struct {
	Name, Project string
	why           string
	err           error
}

// Error says what is there instead.
func (a *Astray) Error() string { return fmt.Sprintf("workspace %s%s", a.Name, a.why) }

// Unwrap gives the error of the look, if there was one.
func (a *Astray) Unwrap() error { return a.err }

// sameProject refuses a workspace whose base is not the folder that it was.
func (w *Workspace) sameProject(project string) error {
	real, err := realpath.Of(project)
	var st unix.Stat_t
	if err == nil {
		err = unix.Lstat(project, &st)
	}
	switch {
	case err != nil:
		return w.astray(err, ": %s: %v", project, err)
	case real != project && w.Project == project:
		return w.astray(nil, " holds changes of %s, which a link leads to %s now", project, real)
	case w.Project != project:
		return fmt.Errorf("workspace %s holds changes of another project, %s", w.Name, w.Project)
	case w.Inode != st.Ino:
		return w.astray(nil, " holds changes of a folder that was at %s before: another one is there now", project)
	}
	return nil
}

func (w *Workspace) astray(err error, why string, args ...any) error {
	return &Astray{w.Name, w.Project, fmt.Sprintf(why, args...), err}
}

// IsRunning reports whether a session has the workspace mounted.
func (w *Workspace) IsRunning() (bool, error) {
	f, err := lockFile(filepath.Join(w.store.folder(w.Name), "use"), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, f.Close()
}

// stopped holds a workspace that no session has mounted, until the lock is closed.
func (w *Workspace) stopped() (*os.File, error) {
	f, err := lockFile(filepath.Join(w.store.folder(w.Name), "use"), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, &Running{w.Name}
	}
	return f, err
}

// Stack opens the layers over the project, or those of a checkpoint. From a checkpoint
// on the base is the project still.
func (w *Workspace) Stack(checkpoint string) (*layers.Stack, error) {
	if err := w.sameProject(w.Project); err != nil {
		return nil, err
	}
	list, err := w.layersOf(checkpoint)
	if err != nil {
		return nil, err
	}
	return layers.Open(w.Project, list)
}

func (w *Workspace) layersOf(checkpoint string) ([]string, error) {
	var ids, out []string
	if checkpoint == "" {
		ids = w.Layers
		up := w.upper()
		there, err := layers.Exists(up)
		if err != nil {
			return nil, err
		}
		if there {
			out = append(out, up)
		}
	} else {
		c, err := w.Checkpoint(checkpoint)
		if err != nil {
			return nil, err
		}
		ids = c.Layers
	}
	for _, id := range ids {
		out = append(out, w.store.layer(id))
	}
	return out, nil
}

func (w *Workspace) upper() string { return w.store.layer(w.Upper) }

// Checkpoint finds one by its ID or an unambiguous beginning of it.
func (w *Workspace) Checkpoint(id string) (Checkpoint, error) {
	var found []Checkpoint
	for _, c := range w.Checkpoints {
		if c.ID == id {
			return c, nil
		}
		if id != "" && strings.HasPrefix(c.ID, id) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Checkpoint{}, fmt.Errorf("checkpoint %s of %s: %w", id, w.Name, ErrNotFound)
	}
	return Checkpoint{}, fmt.Errorf("checkpoint %s of %s: %d begin so", id, w.Name, len(found))
}
