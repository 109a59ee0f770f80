package passed_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"cloister/api"
	"cloister/audit"
	"cloister/host/resolve"
	"cloister/policyset"
	"cloister/policyset/passed"
)

func set(t *testing.T, text string) *policyset.Set {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := policyset.Load(dir, "", resolve.In(t.TempDir(), os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func connect(project, host, verdict string) (e audit.Line) {
	e.Kind, e.Host, e.Port, e.Project, e.Verdict = audit.NetConnect, host, 443, project, verdict
	return e
}

func TestSuggest(t *testing.T) {
	l := set(t, "version: 1\nproxy:\n  presets: []\n  allow: [{domain: known.example}]\n")
	var s passed.Seen
	if !s.Empty() {
		t.Error("nothing is not empty")
	}
	closed := connect("/a", "closed.example", "allow")
	closed.Action = "close"
	for _, e := range []audit.Line{
		connect("/a", "new.example", "allow"), connect("/a", "new.example", "allow"), connect("/b", "new.example", "allow"),
		connect("/a", "known.example", "allow"), connect("/a", "refused.example", "deny"), connect("/a", "no host", "allow"), closed,
	} {
		s.Add(e)
	}
	var wrong []string
	files := func(project string) ([]api.ProjectFile, error) {
		if project == "/b" {
			return nil, errors.New("bad files")
		}
		return nil, nil
	}
	bad := func(project string, _ error) { wrong = append(wrong, project) }
	got, err := s.Suggest(l, false, files, bad)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Rules) != 1 || got.Rules[0].Domain != "new.example" || got.Rules[0].Count != 3 {
		t.Errorf("%+v", got.Rules)
	}
	if !slices.Equal(wrong, []string{"/b"}) {
		t.Errorf("bad files of %q", wrong)
	}
	whole, err := s.Suggest(l, true, files, bad)
	if err != nil || len(whole.Rules) != 2 {
		t.Errorf("a whole policy is %+v, %v", whole.Rules, err)
	}
}
