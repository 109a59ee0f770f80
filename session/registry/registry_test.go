package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cloister/api"
	"cloister/session/registry"
)

func open(t *testing.T, path string) *registry.Registry {
	t.Helper()
	r, note, err := registry.OpenRegistry(path, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if note != "" {
		t.Errorf("note: %s", note)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func fresh(t *testing.T) *registry.Registry {
	return open(t, filepath.Join(t.TempDir(), "sessions.json"))
}

func create(t *testing.T, r *registry.Registry, name string) api.SessionInfo {
	t.Helper()
	info, err := r.Create(api.SessionInfo{Name: name, Project: "/home/p/My Project", Isolation: "native"})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestTable walks every event from every state: what leads where, and that
// everything else is refused and changes nothing.
func TestTable(t *testing.T) {
	paths := map[api.State][]registry.Event{
		api.StateStarting: {},
		api.StateRunning:  {registry.Started},
		api.StateStopped:  {registry.Started, registry.Ended},
		api.StateFailed:   {registry.Broke},
	}
	want := map[string]api.State{
		"starting started": api.StateRunning,
		"starting ended":   api.StateStopped,
		"starting broke":   api.StateFailed,
		"starting lost":    api.StateFailed,
		"running ended":    api.StateStopped,
		"running broke":    api.StateFailed,
		"running lost":     api.StateFailed,
	}
	for from, path := range paths {
		for _, event := range []registry.Event{registry.Granted, registry.Started, registry.Ended, registry.Broke, registry.Lost} {
			name := string(from) + " " + string(event)
			r := fresh(t)
			id := create(t, r, "box").ID
			for _, e := range path {
				if _, err := r.Apply(id, e, nil); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			info, err := r.Apply(id, event, func(i *api.SessionInfo) { i.Reason = "changed" })
			to, possible := want[name]
			var impossible *registry.Impossible
			switch {
			case possible && (err != nil || info.State != to):
				t.Errorf("%s: %s, %v; want %s", name, info.State, err, to)
			case !possible && (!errors.As(err, &impossible) || info.State != from || info.Reason != ""):
				t.Errorf("%s: %s %q, %v; want Impossible and nothing changed", name, info.State, info.Reason, err)
			}
		}
	}
}

func TestNamesAreUniqueAmongTheLiving(t *testing.T) {
	r := fresh(t)
	first := create(t, r, "box")
	_, err := r.Create(api.SessionInfo{Name: "box"})
	if _, ok := errors.AsType[*registry.NameTaken](err); !ok {
		t.Fatalf("second box: %v, want NameTaken", err)
	}
	if _, err := r.Apply(first.ID, registry.Ended, nil); err != nil {
		t.Fatal(err)
	}
	second := create(t, r, "box")
	if got, err := r.Find("box"); err != nil || got.ID != second.ID {
		t.Errorf("box is %s, %v; want the living %s", got.ID, err, second.ID)
	}
	for _, word := range []string{first.ID, first.ID[:8]} {
		if got, err := r.Find(word); err != nil || got.ID != first.ID {
			t.Errorf("find %s: %s, %v", word, got.ID, err)
		}
	}
	if _, err := r.Find(first.ID[:7]); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("7 digits find something: %v", err)
	}
}

func TestDefaultName(t *testing.T) {
	r := fresh(t)
	for project, want := range map[string]string{
		"/home/p/My Project":                `^my-project-[0-9a-f]{4}$`,
		"/home/p/größe_日本.git":              `^gr-e-git-[0-9a-f]{4}$`,
		"/":                                 `^cloister-[0-9a-f]{4}$`,
		"/x/...":                            `^cloister-[0-9a-f]{4}$`,
		"/x/" + strings.Repeat("long", 100): `^(long){10}-[0-9a-f]{4}$`,
		"/x/a\n\x1b[2Jb":                    `^a-2jb-[0-9a-f]{4}$`,
	} {
		info, err := r.Create(api.SessionInfo{Project: project})
		if err != nil || !regexp.MustCompile(want).MatchString(info.Name) {
			t.Errorf("%q: %q, %v; want %s", project, info.Name, err, want)
		}
		if err := registry.CheckID(info.ID); err != nil {
			t.Error(err)
		}
	}
}

func TestBadNames(t *testing.T) {
	r := fresh(t)
	for _, name := range []string{"-x", ".", "..", "a..b", "a/b", "a b", "é", "a\n", strings.Repeat("x", 64), strings.Repeat("0", 32)} {
		var bad *registry.BadName
		if _, err := r.Create(api.SessionInfo{Name: name}); !errors.As(err, &bad) {
			t.Errorf("%q: %v, want BadName", name, err)
		}
	}
	if n := len(r.List(true)); n != 0 {
		t.Errorf("%d sessions after refusals", n)
	}
}

func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "sessions.json")
	r := open(t, path)
	ended, running, gone := create(t, r, "ended"), create(t, r, "running"), create(t, r, "gone")
	for _, s := range []struct {
		id    string
		event registry.Event
	}{{ended.ID, registry.Ended}, {running.ID, registry.Started}, {gone.ID, registry.Started}} {
		if _, err := r.Apply(s.id, s.event, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	r = open(t, path)
	if n := r.Live(); n != 2 {
		t.Errorf("%d live after the restart, want the 2 that are expected", n)
	}
	// Nobody takes the name of a session that may come back.
	if _, err := r.Create(api.SessionInfo{Name: "running"}); err == nil {
		t.Error("the name of an expected session was given away")
	}
	back, err := r.Adopt(running, json.RawMessage(`{"uid":1}`))
	if err != nil || back.State != api.StateStarting || back.ID != running.ID {
		t.Fatalf("adopt: %+v, %v", back, err)
	}
	if _, err := r.Adopt(running, nil); err == nil {
		t.Error("adopted twice")
	}
	if _, err := r.Adopt(ended, nil); err == nil {
		t.Error("adopted a session that had ended")
	}
	var swept []string
	lost, err := r.Settle(t.Context(), func(_ context.Context, live []string) error { swept = live; return nil })
	if err != nil || len(lost) != 1 || lost[0].ID != gone.ID || lost[0].State != api.StateFailed {
		t.Errorf("lost %+v, %v; want only %s", lost, err, gone.ID)
	}
	if !slices.Equal(swept, []string{running.ID}) {
		t.Errorf("sweep was told that %v live, want %s", swept, running.ID)
	}
	states := map[string]api.State{}
	for _, s := range r.List(true) {
		states[s.Name] = s.State
	}
	if diff := cmp.Diff(map[string]api.State{"ended": api.StateStopped, "running": api.StateStarting, "gone": api.StateFailed}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	// Late, but its own shim: lost is not the end, for the guardian after this one
	// neither.
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, path)
	if back, err := r.Adopt(gone, nil); err != nil || back.State != api.StateStarting || back.Reason != "" {
		t.Errorf("a late shim is refused: %+v, %v", back, err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	r := open(t, path)
	huge := slices.Repeat([]string{strings.Repeat("w", 100_000)}, 1000)
	var newest string
	for i := range 230 {
		info, err := r.Create(api.SessionInfo{Name: fmt.Sprintf("s%d", i), Command: huge})
		if err != nil {
			t.Fatal(err)
		}
		newest = info.ID
		if _, err := r.Apply(info.ID, registry.Ended, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.List(true)); n != 200 {
		t.Errorf("%d remembered, want 200", n)
	}
	if _, err := r.Find(newest); err != nil {
		t.Errorf("the newest is forgotten: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 4<<20 {
		t.Errorf("state file: %v, %v", info.Size(), err)
	}
	if n := len(open(t, path).List(true)); n != 200 {
		t.Errorf("%d after a restart, want 200", n)
	}
}

// TestKilled: what a registry knew when its process died at once.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	r := open(t, filepath.Join(dir, "sessions.json"))
	living, ended := create(t, r, "living"), create(t, r, "ended")
	if _, err := r.Apply(ended.ID, registry.Ended, nil); err != nil {
		t.Fatal(err)
	}
	// The disk as it is now, less the list that may not be saved yet.
	copied := t.TempDir()
	if err := os.CopyFS(filepath.Join(copied, "live"), os.DirFS(filepath.Join(dir, "live"))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"torn": `{"version":1,"sess`, "../x": "", strings.Repeat("0", 32): `{"version":1,"sessions":[]}`} {
		if err := os.WriteFile(filepath.Join(copied, "live", filepath.Base(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r = open(t, filepath.Join(copied, "sessions.json"))
	list := r.List(true)
	if len(list) != 1 || list[0].ID != living.ID {
		t.Fatalf("knows %+v, want only the living one", list)
	}
	lost, err := r.Settle(t.Context(), nil)
	if err != nil || len(lost) != 1 {
		t.Errorf("lost %+v, %v", lost, err)
	}
	if left, err := os.ReadDir(filepath.Join(copied, "live")); err != nil || len(left) != 0 {
		t.Errorf("files of the living after all are dead: %v, %v", left, err)
	}
}

func TestSavedSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	synctest.Test(t, func(t *testing.T) {
		r, _, err := registry.OpenRegistry(path, registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		create(t, r, "box")
		time.Sleep(600 * time.Millisecond) //nolint:forbidigo // the clock is synctest's
		synctest.Wait()
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), `"box"`) {
			t.Errorf("a kill now would forget the session: %s, %v", text, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestUnwritableStateIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := registry.OpenRegistry(filepath.Join(file, "sessions.json"), registry.Options{}); err == nil {
		t.Error("opened below a file")
	}
}

// FuzzState: whatever lies in the state file, the registry opens with sound
// names or moves the file aside.
func FuzzState(f *testing.F) {
	f.Add([]byte(`{"version":1,"sessions":[{"id":"00112233445566778899aabbccddeeff","name":"a","state":"running"}]}`))
	f.Add([]byte(`{"version":1,"sessions":[{"id":"../../x","name":"a\u001b","state":"running"}]}`))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "sessions.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		r, note, err := registry.OpenRegistry(path, registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range r.List(true) {
			if registry.CheckName(s.Name) != nil || registry.CheckID(s.ID) != nil || note != "" {
				t.Errorf("took %+v (note %q)", s, note)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}
