package store_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/internal/ownfile"
	"cloister/state/layers"
	"cloister/state/store"
)

// restored is a store that someone else changed, as a backup of theirs would: the folder of the
// workspace x, and what lies outside of the store, which nothing may read or write.
type restored struct {
	*world
	at      string // of the workspace
	outside string
}

func newRestored(t *testing.T) *restored {
	w := newWorld(t)
	w.session("x", func(up string) { put(t, up, "a", "agent") })
	w.locked("x", func(ws *store.Workspace) { _ = w.diff(ws, "") }) // as the end of the session looks
	r := &restored{w, filepath.Join(w.data, "state", "x"), t.TempDir()}
	put(t, r.outside, "docs/thesis", "mine")
	put(t, r.outside, "secret", "key")
	return r
}

// locked is lock for a moment.
func (w *world) locked(name string, do func(ws *store.Workspace)) {
	w.Helper()
	ws, err := w.store.Lock(name)
	if err != nil {
		w.Fatal(err)
	}
	do(ws)
	if err := ws.Close(); err != nil {
		w.Fatal(err)
	}
}

func (r *restored) replace(name string, with func(at string) error) {
	r.Helper()
	at := filepath.Join(r.at, name)
	if err := errors.Join(os.RemoveAll(at), with(at)); err != nil {
		r.Fatal(err)
	}
}

func (r *restored) link(name, to string) {
	r.Helper()
	r.replace(name, func(at string) error { return os.Symlink(filepath.Join(r.outside, to), at) })
}

// describe changes what the store says of the workspace.
func (r *restored) describe(key string, value any) {
	r.Helper()
	file := filepath.Join(r.at, "workspace.json")
	all := map[string]any{}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if all[key] = value; err == nil {
		text, err = json.Marshal(all)
	}
	if err := errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		r.Fatal(err)
	}
}

// journal writes an interrupted change that would make a file, as a program that knows
// the format does.
func (r *restored) journal(project, path, undoes string) {
	r.Helper()
	top, err := layers.OpenFolder(project)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = top.Close() }()
	root, err := top.Stat(".")
	if err != nil {
		r.Fatal(err)
	}
	put(r.T, r.at, "journals/abc/stage/0", "planted")
	var st unix.Statx_t
	dir := filepath.Join(r.at, "journals/abc")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "old"), 0o700),
		unix.Statx(unix.AT_FDCWD, filepath.Join(dir, "stage/0"), 0, unix.STATX_INO, &st)); err != nil {
		r.Fatal(err)
	}
	steps := []map[string]any{}
	staged := []uint64{}
	if path != "" {
		steps = append(steps, map[string]any{"path": path, "new": map[string]any{"kind": "file", "mode": 0o644}})
		staged = append(staged, st.Ino)
	}
	plan := map[string]any{"version": 2, "project": project, "root": root.Stamp, "time": "2026-01-01T00:00:00Z",
		"steps": steps, "apart": true, "undoes": undoes}
	for name, v := range map[string]any{"plan.json": plan, "staged.json": staged} {
		text, err := json.Marshal(v)
		if err != nil {
			r.Fatal(err)
		}
		put(r.T, dir, name, string(text))
	}
}

// What a backup or another account put into a store reads, writes, makes and removes nothing
// outside of it and of the workspace's own project.
func TestTamperedStores(t *testing.T) {
	for name, tamper := range map[string]func(*restored){
		"the lock leads to what is not there": func(r *restored) { r.link("lock", "made") },
		"the use leads to what is not there":  func(r *restored) { r.link("use", "made") },
		"journals lead to documents":          func(r *restored) { r.link("journals", "docs/..") },
		"the base leads away":                 func(r *restored) { r.link("bases", "docs") },
		"a text of the base leads away":       func(r *restored) { r.link("bases/index.json", "secret") },
		"the description is a pipe": func(r *restored) {
			r.replace("workspace.json", func(at string) error { return unix.Mkfifo(at, 0o600) })
		},
		"the description is endless": func(r *restored) {
			if err := os.Truncate(filepath.Join(r.at, "workspace.json"), 1<<40); err != nil {
				r.Fatal(err)
			}
		},
		"the workspace lies elsewhere": func(r *restored) {
			if err := errors.Join(os.Rename(r.at, filepath.Join(r.outside, "x")), os.Symlink(filepath.Join(r.outside, "x"), r.at)); err != nil {
				r.Fatal(err)
			}
		},
		"a layer is a folder above":   func(r *restored) { r.describe("layers", []string{"../../.."}) },
		"the upper is a folder above": func(r *restored) { r.describe("upper", "../..") },
		"a checkpoint's layer lies above": func(r *restored) {
			r.describe("checkpoints", []any{map[string]any{"id": "c", "layers": []string{".."}}})
		},
		"it describes another workspace":   func(r *restored) { r.describe("name", "../../outside") },
		"it names an agent that is a flag": func(r *restored) { r.describe("agent", "--config=/tmp/x") },
		"its project is no path":           func(r *restored) { r.describe("project", "../"+filepath.Base(r.project)) },
		"layers lie elsewhere": func(r *restored) {
			var at string
			r.locked("x", func(ws *store.Workspace) {
				at = filepath.Join(ws.Mount().Store, filepath.Dir(ws.Mount().Project.Upper))
			})
			if err := errors.Join(os.RemoveAll(at), os.Symlink(r.outside, at)); err != nil {
				r.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestored(t)
			tamper(r)
			before := tree(t, r.outside)
			ws, err := r.store.Lock("x")
			if err == nil {
				t.Errorf("it is opened: %+v", ws.Mount())
				_ = ws.Close()
			}
			if use, err := r.store.Begin("x", r.project, ""); err == nil {
				t.Error("a session of it begins")
				_ = use.Close()
			}
			if strange := (*ownfile.Strange)(nil); !errors.As(err, &strange) {
				t.Errorf("it says no path: %v", err)
			}
			if g, err := r.store.Collect(false); err == nil && g.Layers > 0 {
				t.Errorf("layers that it may need are removed: %+v", g)
			}
			if after := tree(t, r.outside); after != before {
				t.Errorf("outside the store there is\n%s, not\n%s", after, before)
			}
		})
	}
}

// An interrupted change that was not written here is left alone, with a word that says where.
func TestForeignJournals(t *testing.T) {
	for name, write := range map[string]func(r *restored){
		"out of the project":   func(r *restored) { r.journal(r.project, "../planted", "") },
		"into another folder":  func(r *restored) { r.journal(r.outside, "planted", "") },
		"into the project":     func(r *restored) { r.journal(r.project, "planted", "") },
		"taking back outside":  func(r *restored) { r.journal(r.project, "", "../../../../"+filepath.Base(filepath.Dir(r.outside))) },
		"of a folder that is":  func(r *restored) { r.journal(r.project, ".", "") },
		"through a full path":  func(r *restored) { r.journal(r.project, filepath.Join(r.outside, "planted"), "") },
		"in another's journal": func(r *restored) { r.journal(r.project, "d/planted", "x/y") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRestored(t)
			write(r)
			before := tree(t, r.outside) + tree(t, r.project) + tree(t, filepath.Dir(r.project))
			ws := r.lock("x")
			if len(ws.Recovered) != 1 || !strings.Contains(ws.Recovered[0], "journals/abc") {
				t.Errorf("it says %q", ws.Recovered)
			}
			if after := tree(t, r.outside) + tree(t, r.project) + tree(t, filepath.Dir(r.project)); after != before {
				t.Errorf("there is\n%s, not\n%s", after, before)
			}
			r.want(ws, "", "modified a")
			if _, err := ws.Undo(1); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("undone: %v", err)
			}
		})
	}
}

// A change that was made is taken back by its own journal alone: not by what a backup brought.
func TestForeignUndo(t *testing.T) {
	r := newRestored(t)
	ws := r.lock("x")
	if _, err := ws.Apply(r.diff(ws, ""), ""); err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(filepath.Join(r.at, "journals", "*"))
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	// Another folder of the same name, with all that is in it.
	if err := errors.Join(os.Rename(list[0], list[0]+"0"), os.CopyFS(list[0], os.DirFS(list[0]+"0")), os.RemoveAll(list[0]+"0"),
		os.Remove(filepath.Join(list[0], "old/0")), os.Symlink(filepath.Join(r.outside, "secret"), filepath.Join(list[0], "old/0")),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Undo(1); err == nil || !strings.Contains(err.Error(), "not written here") {
		t.Errorf("undo: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(r.project, "a")); err != nil || string(text) != "agent" {
		t.Errorf("the project's file says %q, %v", text, err)
	}
}

// tree is what lies below a folder, as text.
func tree(t *testing.T, top string) string {
	t.Helper()
	var b strings.Builder
	root := os.DirFS(top)
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b.WriteString(e.Name() + "\n")
		sub, err := os.ReadDir(filepath.Join(top, e.Name()))
		if err == nil {
			for _, s := range sub {
				b.WriteString(e.Name() + "/" + s.Name() + "\n")
			}
			continue
		}
		if f, err := root.Open(e.Name()); err == nil {
			var text [64]byte
			n, _ := f.Read(text[:])
			b.Write(text[:n])
			_ = f.Close()
		}
	}
	return b.String()
}
