package apply

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"cloister/internal/durable"
	"cloister/internal/exactjson"
	"cloister/internal/ownfile"
	"cloister/state/acl"
	"cloister/state/layers"
)

// Step changes one path of the project from Old to New. A zero Node is an absent entry.
// A folder goes after all that is in it, and comes before.
type Step struct {
	Path string      `json:"path"`
	Old  layers.Node `json:"old,omitzero"`
	New  layers.Node `json:"new,omitzero"`
	// ModeOnly is for a file whose content stays.
	ModeOnly bool `json:"mode_only,omitempty"`
	// Keep are the access lists that what is made gets. nil: a file none, a folder what the
	// one above it says.
	Keep *acl.Lists `json:"keep,omitempty"`
	// Was are those of what is there before, once a journal is made of the steps.
	Was *acl.Lists `json:"was,omitempty"`
	// Open gives the content of a new file.
	Open func() (io.ReadCloser, error) `json:"-"`
}

// plan is what a journal says of itself before anything is done.
type plan struct {
	Version int          `json:"version"`
	Project string       `json:"project"`
	Root    layers.Stamp `json:"root"`
	Time    time.Time    `json:"time"`
	Undoes  string       `json:"undoes,omitempty"` // the journal that this one takes back
	Label   string       `json:"label,omitempty"`
	Steps   []Step       `json:"steps"`
	// Apart says that new content is staged with the journal, not in the project.
	Apart bool `json:"apart,omitempty"`
	// Self is the journal's own folder as it was made: one that a backup brought back is
	// another.
	Self self `json:"self"`
}

// version 2 can stage apart, version 3 knows its folder, version 4 access lists.
const version = 4

// idBase is the base in which a journal's name is its time.
const idBase = 36

// maxFile bounds a file of a journal, which names each step in some 300 bytes.
const maxFile = 512 << 20

// Journal is one set of steps, on disk.
type Journal struct {
	ID      string
	Project string
	Time    time.Time
	Label   string
	Undoes  string
	Steps   []Step

	dir   string
	root  layers.Stamp
	apart bool
	alien string // why it is not obeyed; "" where this machine wrote it
}

// Conflict is a path that is not as the step expects it.
type Conflict struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Conflicts is the error for a journal that was rolled back, or not begun, because of
// what someone else changed.
type Conflicts []Conflict

// Error names the first.
func (c Conflicts) Error() string {
	more := ""
	if len(c) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(c)-1)
	}
	return fmt.Sprintf("%s: %s%s", c[0].Path, c[0].Why, more)
}

// files of a journal
const (
	planFile    = "plan.json"
	stagedFile  = "staged.json"
	backFile    = "back.json" // how many steps are being taken back
	doneFile    = "done.json" // the change is made
	settledFile = "settled"   // and cleaned up after
	undoneFile  = "undone"
	oldFolder   = "old"
	stageFolder = "stage" // of new content, where it can be moved from there
)

// List gives the finished journals of a project in a folder, the oldest first.
func List(dir, project string) ([]*Journal, error) {
	entries, err := folders(dir)
	if err != nil {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	var out []*Journal
	for _, e := range entries {
		j, err := load(filepath.Join(dir, e.Name()), project)
		if err != nil {
			return nil, err
		}
		done, err := j.has(doneFile)
		if err != nil {
			return nil, err
		}
		if done {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *Journal) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// Newest is the finished journal of a project that was begun last; nil if there is none.
func Newest(dir, project string) (*Journal, error) {
	entries, err := folders(dir)
	if err != nil {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		return cmp.Or(cmp.Compare(len(b.Name()), len(a.Name())), cmp.Compare(b.Name(), a.Name()))
	})
	for _, e := range entries {
		done, err := layers.Exists(filepath.Join(dir, e.Name(), doneFile))
		if err != nil {
			return nil, fmt.Errorf("list journals: %w", err)
		}
		if done {
			j, err := load(filepath.Join(dir, e.Name()), project)
			if err != nil || j.alien == "" {
				return j, err
			}
		}
	}
	return nil, nil
}

// folders lists the journals of a folder, which may not be there yet.
func folders(dir string) ([]fs.DirEntry, error) {
	err := ownfile.Folder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if full := filepath.Join(dir, e.Name()); !e.IsDir() || !isID(e.Name()) {
			return nil, &ownfile.Strange{Path: full, Why: "it is no journal"}
		}
	}
	return entries, nil
}

// Undone reports whether a later journal took this one back.
func (j *Journal) Undone() (bool, error) { return j.has(undoneFile) }

// Made are the entries that the steps of a finished journal made, in their order.
func (j *Journal) Made() (made []layers.Node, err error) {
	if err := read(filepath.Join(j.dir, doneFile), &made); err != nil {
		return nil, fmt.Errorf("read journal %s: %w", j.ID, err)
	}
	if len(made) != len(j.Steps) {
		return nil, fmt.Errorf("journal %s has %d steps and %d results", j.ID, len(j.Steps), len(made))
	}
	return made, nil
}

// Began is when a journal of this name began, in nanoseconds since 1970.
func Began(id string) (int64, error) {
	n, err := strconv.ParseInt(id, idBase, 64)
	if err != nil {
		return 0, fmt.Errorf("journal %q: %w", id, err)
	}
	return n, nil
}

func (j *Journal) has(name string) (bool, error) { return layers.Exists(filepath.Join(j.dir, name)) }

func load(dir, project string) (*Journal, error) {
	var p plan
	if err := read(filepath.Join(dir, planFile), &p); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	if p.Version < 1 || p.Version > version {
		return nil, fmt.Errorf("read journal %s: version %d; this program knows %d", dir, p.Version, version)
	}
	now, err := selfOf(dir)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	j := &Journal{
		ID: filepath.Base(dir), Project: p.Project, Time: p.Time, Label: p.Label, Undoes: p.Undoes,
		Steps: p.Steps, dir: dir, root: p.Root, apart: p.Apart,
	}
	switch {
	case p.Version < 3:
		j.alien = "an earlier version made it"
	case p.Self != now:
		j.alien = "it was not written here: a backup may have brought it back"
	default:
		j.alien = unsound(p, project)
	}
	return j, nil
}

// create writes a journal that says what will be done.
func create(dir, project, label, undoes string, steps []Step) (*Journal, error) {
	root, err := layers.OpenFolder(project)
	if err != nil {
		return nil, err
	}
	node, err := root.Stat(".")
	if err == nil {
		steps, err = withLists(root, steps)
	}
	if err := errors.Join(err, root.Close()); err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	j := &Journal{
		ID: strconv.FormatInt(now.UnixNano(), idBase), Project: project, Time: now, Label: label, Undoes: undoes,
		Steps: steps, root: node.Stamp,
	}
	j.dir = filepath.Join(dir, j.ID)
	if err := os.MkdirAll(filepath.Join(j.dir, oldFolder), 0o700); err != nil {
		return nil, fmt.Errorf("make journal: %w", err)
	}
	if j.apart, err = sameMount(j.dir, project); err != nil {
		return nil, errors.Join(fmt.Errorf("make journal: %w", err), os.RemoveAll(j.dir))
	}
	at, err := selfOf(j.dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make journal: %w", err), os.RemoveAll(j.dir))
	}
	p := plan{version, project, j.root, j.Time, undoes, label, steps, j.apart, at}
	if err := write(filepath.Join(j.dir, planFile), p); err != nil {
		return nil, errors.Join(err, os.RemoveAll(j.dir))
	}
	return j, nil
}

// withLists notes the access lists of what the steps replace and remove.
func withLists(root *layers.Folder, steps []Step) ([]Step, error) {
	steps = slices.Clone(steps)
	for i, s := range steps {
		if s.ModeOnly || s.Old.Kind != layers.File && (s.Old.Kind != layers.Dir || s.New.Exists()) {
			continue
		}
		dir, name, err := layers.Parent(root, s.Path)
		if err != nil {
			continue // a conflict, as the check of the steps tells
		}
		was, err := acl.At(dir.Fd(), name)
		if err := errors.Join(err, dir.Close()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		steps[i].Was = was
	}
	return steps, nil
}

func write(name string, v any) error {
	text, err := exactjson.Marshal(v)
	if err != nil {
		return err
	}
	return durable.WriteFile(name, text, 0o600)
}

func read(name string, v any) error {
	text, err := ownfile.Read(name, maxFile)
	if err != nil {
		return err
	}
	if err := exactjson.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
