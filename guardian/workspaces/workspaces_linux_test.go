package workspaces_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/api"
	"cloister/guardian/workspaces"
	"cloister/internal/xdg"
	"cloister/session/kept"
	"cloister/session/launch"
	"cloister/state/store"
	"cloister/workspace/projects"
)

// world is a room over one project, with what was recorded and begun.
type world struct {
	*workspaces.Room
	t        *testing.T
	store    *store.Store
	project  string
	recorded []string
	fails    error // of the record
	begun    []launch.Order
	prints   string // of a command that is run in a copy
	begins   error
	status   chan int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	top, project := t.TempDir(), t.TempDir()
	dirs := xdg.Dirs{Config: filepath.Join(top, "c"), State: filepath.Join(top, "s"), Data: filepath.Join(top, "d"),
		Runtime: filepath.Join(top, "r")}
	logs := filepath.Join(top, "logs")
	for _, dir := range []string{dirs.Config, dirs.State, dirs.Data, logs} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := projects.Register(dirs, project, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	s, err := kept.Open(dirs, project)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, store: s, project: project, status: make(chan int, 1)}
	w.Room = &workspaces.Room{
		Dirs: dirs, Audit: filepath.Join(top, "audit"), Logs: logs,
		Record: func(_ context.Context, r api.StateRecord) error {
			w.recorded = append(w.recorded, r.Kind)
			return w.fails
		},
		Hold: func(context.Context, string) (func() error, error) { return nil, errors.New("nothing runs") },
		Begin: func(_ context.Context, o launch.Order) (launch.Answer, <-chan int, error) {
			w.begun = append(w.begun, o)
			if w.begins != nil {
				return launch.Answer{}, nil, w.begins
			}
			err := os.WriteFile(filepath.Join(logs, o.Name+".log"), []byte(w.prints), 0o600)
			return launch.Answer{Name: o.Name}, w.status, err
		},
	}
	return w
}

// session writes files into a workspace as one session does.
func (w *world) session(name string, files map[string]string) {
	w.t.Helper()
	use, err := w.store.Begin(name, w.project, "")
	if err != nil {
		w.t.Fatal(err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(use.Mount.Store, use.Mount.Project.Upper, file), []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := use.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// alone holds the store to one workspace, and the project to nothing.
func (w *world) alone(what string) {
	w.t.Helper()
	names, err := w.store.Names()
	if err != nil || !slices.Equal(names, []string{"k"}) {
		w.t.Errorf("%s: the store has %q, %v", what, names, err)
	}
	if entries, err := os.ReadDir(w.project); err != nil || len(entries) > 0 {
		w.t.Errorf("%s: the project has %v, %v", what, entries, err)
	}
	if logs, err := os.ReadDir(w.Logs); err != nil || len(logs) > 0 {
		w.t.Errorf("%s: the logs have %v, %v", what, logs, err)
	}
}

const evil = "\x1b[2J\u202e"

// What there is none of, and what no one may ask, is an error without anything a terminal obeys.
func TestBadWords(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session("k", map[string]string{"a": "one\n", "b" + evil: "two\n"})
	d, err := w.Diff(ctx, "k", url.Values{"lines": {"1"}})
	if err != nil || len(d.Changes) != 2 || len(d.Lines) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	for name, words := range map[string]url.Values{
		"nosuch": {}, evil: {}, "..": {}, "": {},
		"k": {"at": {evil}},
	} {
		if _, err := w.Diff(ctx, name, words); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("diff of %q: %v", name, err)
		}
	}
	if _, err := w.Diff(ctx, "k", url.Values{"since": {"nosuch"}}); err == nil {
		t.Error("a diff since a checkpoint that there is none of")
	}
	if d, err := w.Diff(ctx, "k", url.Values{"path": {"../../etc/passwd"}}); err != nil || len(d.Changes) > 0 || d.Patch != "" {
		t.Errorf("a path out of the project: %+v, %v", d, err)
	}
	var refused *kept.Refused
	for verb, in := range map[string]api.WorkspaceAct{
		evil: {}, "": {}, "forget": {},
		"fork":    {Count: 21},
		"undo":    {Message: "nothing"},
		"apply":   {Digest: "x"},
		"discard": {},
		"compare": {With: slices.Repeat([]string{"k"}, 20)},
	} {
		if _, err := w.Act(ctx, "k", verb, in); !errors.As(err, &refused) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v", verb, err)
		}
	}
	if _, err := w.Act(ctx, "k", "fork", api.WorkspaceAct{Prompt: "go on"}); !errors.As(err, &refused) {
		t.Errorf("a prompt for no agent: %v", err)
	}
	for _, verb := range []string{"restore", "fork", "apply"} {
		if _, err := w.Act(ctx, "k", verb, api.WorkspaceAct{Checkpoint: "nosuch"}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of a checkpoint that there is none of: %v", verb, err)
		}
	}
	for _, verb := range []string{"checkpoint", "compare", "discard"} {
		if _, err := w.Act(ctx, "nosuch", verb, api.WorkspaceAct{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of nothing: %v", verb, err)
		}
	}
	w.alone("after all of it")
	if len(w.recorded) > 0 || len(w.begun) > 0 {
		t.Errorf("recorded %q, begun %v", w.recorded, w.begun)
	}
}

// What cannot be recorded is not done.
func TestUnrecorded(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session("k", map[string]string{"a": "one\n"})
	d, err := w.Diff(ctx, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	w.fails = errors.New("the disk is full" + evil)
	for verb, in := range map[string]api.WorkspaceAct{
		"checkpoint": {}, "fork": {}, "apply": {Digest: d.Digest}, "discard": {Digest: d.Digest},
		"undo": {Message: "nothing"},
	} {
		if _, err := w.Act(ctx, "k", verb, in); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if err := w.Keep(ctx, "k", "quiet", ""); err == nil {
		t.Error("an automatic checkpoint is kept that is not recorded")
	}
	list, err := w.List(ctx)
	if err != nil || len(list) != 1 || len(list[0].Checkpoints) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	w.alone("unrecorded")
}

// An act that was begun is done to its end, also where who asked is gone.
func TestGoneMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.session("k", map[string]string{"a": "one\n"})
	gone, leave := context.WithCancel(t.Context())
	leave()
	out, err := w.Act(gone, "k", "checkpoint", api.WorkspaceAct{Message: "m"})
	if err != nil || out.Checkpoint == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	list, err := w.List(t.Context())
	if err != nil || len(list[0].Checkpoints) != 1 || list[0].Checkpoints[0].Message != "m" {
		t.Errorf("%+v, %v", list, err)
	}
	// A command is begun for none who waits for it.
	if _, err := w.Act(gone, "k", "compare", api.WorkspaceAct{Run: "true"}); !errors.Is(err, context.Canceled) {
		t.Errorf("compare: %v", err)
	}
	w.alone("compare")
	if len(w.begun) > 0 {
		t.Errorf("begun %v", w.begun)
	}
}

// A workspace that a command has locked is busy: a look waits a moment, an act does not.
func TestBusy(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session("k", map[string]string{"a": "one\n"})
	locked, err := w.store.Lock("k")
	if err != nil {
		t.Fatal(err)
	}
	var busy *store.Busy
	if _, err := w.Act(ctx, "k", "checkpoint", api.WorkspaceAct{}); !errors.As(err, &busy) {
		t.Errorf("an act: %v", err)
	}
	gone, leave := context.WithCancel(ctx)
	leave()
	if _, err := w.Diff(gone, "k", nil); !errors.As(err, &busy) {
		t.Errorf("a look: %v", err)
	}
	if err := w.Keep(gone, "k", "quiet", ""); !errors.As(err, &busy) {
		t.Errorf("an automatic checkpoint: %v", err)
	}
	looked := make(chan error, 1)
	go func() {
		_, err := w.Act(ctx, "k", "compare", api.WorkspaceAct{})
		looked <- err
	}()
	if err := locked.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-looked; err != nil {
		t.Errorf("what became free: %v", err)
	}
}

// A command is run in a copy of each, and nothing of it is left, whatever it prints and
// however it ends.
func TestCompare(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	w.session("k", map[string]string{"a": "one\n"})
	w.prints = strings.Repeat("x", 200<<10) + "\n" + evil + "\nlast\n"
	w.status <- 3
	out, err := w.Act(ctx, "k", "compare", api.WorkspaceAct{Run: "sh test.sh"})
	if err != nil || out.Compared == nil || len(out.Compared.Runs) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	run := out.Compared.Runs[0]
	text := strings.Join(run.Last, "\n")
	if run.Status != 3 || !strings.Contains(text, `\x1b[2J\u202e`) || len(text) > 8<<10 || run.Last[len(run.Last)-1] != "last" {
		t.Errorf("status %d, %d bytes, of which the end is %q", run.Status, len(text), text[max(0, len(text)-100):])
	}
	if o := w.begun[0]; o.Name == "k" || o.Workspace != "overlay" || !slices.Equal(o.Args, []string{"sh", "-c", "sh test.sh"}) || o.Timeout == 0 {
		t.Errorf("begun: %+v", o)
	}
	w.alone("a command")

	w.begins = errors.New("no room" + evil)
	if _, err := w.Act(ctx, "k", "compare", api.WorkspaceAct{Run: "true"}); !errors.Is(err, w.begins) || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("one that does not begin: %v", err)
	}
	w.alone("one that does not begin")

	w.begins = nil
	close(w.status)
	if _, err := w.Act(ctx, "k", "compare", api.WorkspaceAct{Run: "true"}); err == nil {
		t.Error("one of which the end is not known counts")
	}
	w.alone("one of which the end is not known")
	if _, err := w.Act(ctx, "k", "compare", api.WorkspaceAct{With: []string{"nosuch"}}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("with one that there is none of: %v", err)
	}
}

// More rows than an answer has room for are counted.
func TestManyRows(t *testing.T) {
	w := newWorld(t)
	files := map[string]string{}
	for i := range 1100 {
		files[strings.Repeat("n", i%200)+string(rune('a'+i/200))+strings.Repeat("m", 40)] = ""
	}
	w.session("k", files)
	out, err := w.Act(t.Context(), "k", "compare", api.WorkspaceAct{})
	if err != nil || len(out.Compared.Paths) != 1000 || out.Compared.More != len(files)-1000 {
		t.Fatalf("%v, %d and %d more", err, len(out.Compared.Paths), out.Compared.More)
	}
}
