package hostcommands

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/api"
	"cloister/audit"
	"cloister/audit/recorder"
	"cloister/git"
	"cloister/guardian/sessionctx"
	"cloister/policy"
	"cloister/session/stats"
)

// TestManyHideNone: of a push that brings more files than a summary names, the record says that there are further ones.
func TestManyHideNone(t *testing.T) {
	w, read := lister(t)
	var decoys []string
	for i := range 64 {
		decoys = append(decoys, fmt.Sprintf(".vscode/%d", i))
	}
	w.list(t.Context(), brought(decoys...))
	w.list(t.Context(), brought("plain", ".envrc", ".husky/pre-commit"))
	got := read()
	if len(got) != 65 || !strings.Contains(got[64], "further files of this push on cloister/h") {
		t.Errorf("%d records, the last says %q", len(got), got[len(got)-1])
	}
}

// TestListsWhatGitIsLedTo: where the project's own configuration leads git to a folder, what comes back there is listed.
func TestListsWhatGitIsLedTo(t *testing.T) {
	w, read := lister(t)
	for name, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "objects/x": "", "refs/x": "",
		"config": "[core]\n\thooksPath = tracked-hooks\n"} {
		file := filepath.Join(w.s.Info.Project, ".git", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	w.list(t.Context(), brought("main.go", "tracked-hooks/pre-commit"))
	if got := read(); !slices.Equal(got, []string{"cloister/h:tracked-hooks/pre-commit "}) {
		t.Errorf("listed is %q", got)
	}
}

func brought(files ...string) *git.Push {
	return &git.Push{Updates: []git.Update{{Ref: "refs/heads/cloister/h", There: files}}}
}

// lister is what lists files of a session, and what reads its record.
func lister(t *testing.T) (w *gitwork, read func() []string) {
	t.Helper()
	dir := t.TempDir()
	project, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	records, err := recorder.Open(dir, slog.New(slog.DiscardHandler), func(audit.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := policy.Compile(policy.Input{})
	if err != nil {
		t.Fatal(err)
	}
	c := &sessionctx.Context{Info: api.SessionInfo{ID: "1", Name: "h", Project: project}, Records: records,
		Tally: stats.New(api.SessionSummary{})}
	c.Snapshot.Store(snapshot)
	return &gitwork{hosted: &hosted{s: &Session{service: &Service{}, Context: c}}}, func() (out []string) {
		for e, err := range audit.Read(dir, audit.Filter{Kind: audit.AutorunChanged}) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e.Resource+" "+e.Reason)
		}
		return out
	}
}
