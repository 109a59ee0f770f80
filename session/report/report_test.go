package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cloister/api"
	"cloister/session"
	"cloister/session/report"
)

func written(t *testing.T, path string, do func()) map[string]any {
	t.Helper()
	f, err := report.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if do != nil {
		do()
	}
	res := session.Result{Name: "one", Duration: 1500 * time.Millisecond, Summary: api.SessionSummary{Denied: 2}}
	if err := f.Write(res, 3); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestReport(t *testing.T) {
	out := written(t, filepath.Join(t.TempDir(), "report.json"), nil)
	if out["name"] != "one" || out["exit_status"] != 3.0 || out["duration_ms"] != 1500.0 || out["denied"] != 2.0 {
		t.Errorf("%v", out)
	}
	if list, is := out["autorun_changed"].([]any); !is || len(list) != 0 {
		t.Errorf("no changes are an empty list, not %v", out["autorun_changed"])
	}
}

func TestNoReportWritesNothing(t *testing.T) {
	f, err := report.Open("")
	if err != nil || f != nil {
		t.Fatalf("%v, %v", f, err)
	}
	if err := f.Write(session.Result{}, 0); err != nil {
		t.Error(err)
	}
}

// What the command put at the name is replaced, and a link there is not followed.
func TestALinkAtTheNameIsReplaced(t *testing.T) {
	dir := t.TempDir()
	target, path := filepath.Join(dir, "precious"), filepath.Join(dir, "report.json")
	if err := os.WriteFile(target, []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	written(t, path, func() {
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	})
	if text, err := os.ReadFile(target); err != nil || string(text) != "as it was" {
		t.Errorf("the target holds %q, %v", text, err)
	}
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("%v, %v", fi, err)
	}
}

// A folder that was moved away while the command ran keeps its report, and the link that was
// put in its place leads nowhere.
func TestAMovedFolderKeepsItsReport(t *testing.T) {
	top := t.TempDir()
	dir, away, other := filepath.Join(top, "project"), filepath.Join(top, "away"), filepath.Join(top, "other")
	for _, d := range []string{dir, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f, err := report.Open(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, dir); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(session.Result{}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(away, "report.json")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) != 0 {
		t.Errorf("through the link: %v, %v", left, err)
	}
}
