package memory

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cloister/api"
	"cloister/session/kept"
	"cloister/session/launch"
	"cloister/state/layers"
	"cloister/state/store"
)

// kin is a workspace with a checkpoint that has a memory, and what became of its children.
type kin struct {
	Brancher
	*store.Workspace
	checkpoint store.Checkpoint
	mu         sync.Mutex
	said       map[string]string // of each child that was started, what it heard of its image
	fails      func(name string) error
}

func newKin(t *testing.T) *kin {
	t.Helper()
	s, err := store.Open(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	use, err := s.Begin("box", t.TempDir(), "")
	if err == nil {
		err = use.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	k := &kin{said: map[string]string{}}
	k.Hand = &kept.Hand{Store: s, Audit: t.TempDir(), Record: func(context.Context, api.StateRecord) error { return nil },
		Known: func(string) error { return nil },
		Hold:  func(context.Context, string) (func() error, error) { return nil, errors.New("nothing runs") }}
	k.Free = func() (int64, error) { return 1 << 30, nil }
	k.Start = func(_ context.Context, o launch.Order, files ...*os.File) (launch.Answer, error) {
		p := Took(files)
		sheet, err := Read(o.From)
		if err != nil {
			return launch.Answer{}, err
		}
		i, err := Open(o.From, sheet)
		if err != nil {
			return launch.Answer{}, err
		}
		digest, err := sheet.Digest()
		if err != nil {
			return launch.Answer{}, err
		}
		// The real one closes its own copies; these are the starter's.
		p.said = sync.OnceValues(func() (string, error) {
			text, err := io.ReadAll(files[len(names)])
			return string(text), err
		})
		i.Sound = p.vouches(i, sheet, digest)
		err = i.Known()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.said[o.Name] = "sound"
		if err != nil {
			k.said[o.Name] = err.Error()
		}
		if err == nil && k.fails != nil {
			err = k.fails(o.Name)
		}
		return launch.Answer{Name: o.Name}, errors.Join(err, i.Close())
	}
	if k.Workspace, err = s.Lock("box"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	k.Remembers = func(checkpoint string) (string, error) {
		dir, sheet := made(t)
		sheet.Checkpoint = checkpoint
		to := filepath.Join(k.Folder(), "memories")
		return "memories", errors.Join(os.Rename(dir, to), Write(to, sheet))
	}
	k.checkpoint, err = k.Hand.Watched(t.Context(), k.Workspace).Save(t.Context(), "fork", true, nil)
	k.Remembers = nil
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// gone reports whether nothing is left of the checkpoint once the workspace is given back.
func (k *kin) gone(t *testing.T) bool {
	t.Helper()
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := k.Hand.Store.Lock("box")
	if err != nil {
		t.Fatal(err)
	}
	k.Workspace = w
	there, err := layers.Exists(filepath.Join(w.Folder(), "memories"))
	if err != nil {
		t.Fatal(err)
	}
	if (len(w.Checkpoints) > 0) != there {
		t.Fatalf("checkpoints %v, and the image is there: %v", w.Checkpoints, there)
	}
	return !there
}

func change(t *testing.T, dir, file string, by func([]byte)) {
	t.Helper()
	at := filepath.Join(dir, file)
	text, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	by(text)
	if err := os.WriteFile(at, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRefusedForkLeavesNothing: what was kept for children alone goes with the last of them.
func TestRefusedForkLeavesNothing(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*testing.T, *kin)
		says   string
		made   bool // by a person, before
		stays  bool
	}{
		"no room": {change: func(_ *testing.T, k *kin) { k.Free = func() (int64, error) { return 1, nil } }, says: "are free: fork fewer"},
		"no room, of a checkpoint of a person's": {
			change: func(_ *testing.T, k *kin) { k.Free = func() (int64, error) { return 1, nil } },
			says:   "are free: fork fewer", made: true, stays: true,
		},
		"a bad image": {change: func(t *testing.T, k *kin) {
			change(t, Folder(k.Workspace, k.checkpoint), "pages", func(b []byte) { b[3] ^= 1 })
		}, says: "its file pages is not as it was kept"},
		"no sheet": {change: func(t *testing.T, k *kin) {
			if err := os.Remove(filepath.Join(Folder(k.Workspace, k.checkpoint), "sheet.json")); err != nil {
				t.Fatal(err)
			}
		}, says: "read what is known of the memory"},
		"no name": {change: func(_ *testing.T, k *kin) {
			k.Hand.Record = func(context.Context, api.StateRecord) error { return errors.New("no record") }
		}, says: "no record"},
		"none starts": {change: func(_ *testing.T, k *kin) {
			k.fails = func(string) error { return errors.New("does not start") }
		}, says: "does not start"},
		"one starts": {change: func(_ *testing.T, k *kin) {
			k.fails = func(name string) error {
				if name == "box-2" {
					return nil
				}
				return errors.New("does not start")
			}
		}, says: "does not start", stays: true},
		"all start": {change: func(*testing.T, *kin) {}, stays: true},
	} {
		t.Run(what, func(t *testing.T) {
			k := newKin(t)
			c.change(t, k)
			_, err := k.Branch(t.Context(), k.Workspace, k.checkpoint, 3, nil, !c.made)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if k.gone(t) == c.stays {
				t.Errorf("the checkpoint stays: %v, want %v", !c.stays, c.stays)
			}
			left, err := k.Hand.Store.Names()
			if want := map[bool]int{false: 1, true: 2}[what == "one starts"]; err != nil || what != "all start" && len(left) != want {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

// TestPassedImage: a child goes on from the very files that were compared, by the sheet by which they were.
func TestPassedImage(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*testing.T, string)
		sound  bool
	}{
		"as it was": {func(*testing.T, string) {}, true},
		"one bit": {func(t *testing.T, dir string) {
			change(t, dir, "state", func(b []byte) { b[0] ^= 1 })
		}, false},
		"another file in its place": {func(t *testing.T, dir string) {
			// The same bytes, of which nobody knows for how long: another file was not compared.
			at := filepath.Join(dir, "pages")
			text, err := os.ReadFile(at)
			if err := errors.Join(err, os.Remove(at), os.WriteFile(at, text, 0o600)); err != nil {
				t.Fatal(err)
			}
		}, false},
		"another sheet": {func(t *testing.T, dir string) {
			s, err := Read(dir)
			s.Session = "0c"
			if err := errors.Join(err, Write(dir, s)); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			k := newKin(t)
			start := k.Start
			k.Start = func(ctx context.Context, o launch.Order, files ...*os.File) (launch.Answer, error) {
				if what != "one bit" { // between who compares and who goes on
					c.change(t, o.From)
				}
				return start(ctx, o, files...)
			}
			if what == "one bit" {
				c.change(t, Folder(k.Workspace, k.checkpoint))
			}
			_, err := k.Branch(t.Context(), k.Workspace, k.checkpoint, 1, nil, true)
			if (err == nil) != c.sound || (k.said["box-1"] == "sound") != c.sound {
				t.Errorf("%v; the child heard %q", err, k.said["box-1"])
			}
			if c.sound == k.gone(t) {
				t.Error("the checkpoint is not what came of it")
			}
		})
	}
}
