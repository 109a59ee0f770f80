package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/host/kernel"
	"cloister/internal/xdg"
	"cloister/sandbox"
)

// folders of an instance that was never used.
func fresh(t *testing.T) xdg.Dirs {
	t.Helper()
	top := t.TempDir()
	return xdg.Dirs{Config: filepath.Join(top, "config"), State: filepath.Join(top, "state"),
		Data: filepath.Join(top, "data"), Runtime: filepath.Join(top, "run")}
}

func options(d xdg.Dirs) Options {
	return Options{
		Dirs:   func() (xdg.Dirs, error) { return d, nil },
		Socket: func(d xdg.Dirs) string { return filepath.Join(d.Runtime, "guardian.sock") },
		Policy: func() (string, []string, error) { return "sha256:0", nil, nil },
		Hints:  func(error) []string { return []string{"what would mend it"} },
		Levels: []Level{{"none", func() (sandbox.Driver, error) { return nil, errors.New("there is no such program") }}},
	}
}

func byID(t *testing.T, d Diagnosis, id string) Check {
	t.Helper()
	i := slices.IndexFunc(d.Checks, func(c Check) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("no check %q", id)
	}
	return d.Checks[i]
}

func TestExamineMakesNoFolder(t *testing.T) {
	d := fresh(t)
	found := options(d).Examine(context.Background())
	for _, id := range []string{"config-dir", "state-dir", "data-dir", "runtime-dir", "config", "guardian"} {
		if c := byID(t, found, id); c.Status != kernel.OK {
			t.Errorf("%s is %s: %s", id, c.Status, c.Detail)
		}
	}
	for _, dir := range []string{d.Config, d.State, d.Data, d.Runtime} {
		if _, err := os.Lstat(dir); err == nil {
			t.Errorf("%s was made", dir)
		}
	}
	if found.OK || found.Isolation[0].Available || found.Isolation[0].Reason != "there is no such program" {
		t.Errorf("a machine without a level is fine: %+v", found.Isolation)
	}
}

func TestFoldersThatCannotServe(t *testing.T) {
	d := fresh(t)
	if err := os.WriteFile(d.Data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.Runtime, 0o755); err != nil {
		t.Fatal(err)
	}
	found := options(d).Examine(context.Background())
	for id, want := range map[string]string{"data-dir": "not a folder", "runtime-dir": "open to others (mode 0755)"} {
		c := byID(t, found, id)
		if c.Status != kernel.Fail || !strings.Contains(c.Detail, want) || c.Fix == "" {
			t.Errorf("%s: %+v, want %q and a fix", id, c, want)
		}
	}
}

func TestErrorsComeWithTheirHints(t *testing.T) {
	o := options(fresh(t))
	o.Policy = func() (string, []string, error) { return "", nil, errors.New("line 3: no such key\nline 4: none") }
	c := byID(t, o.Examine(context.Background()), "config")
	if c.Status != kernel.Fail || c.Detail != "line 3: no such key; line 4: none" || c.Fix != "what would mend it" {
		t.Errorf("%+v", c)
	}
	o.Policy = func() (string, []string, error) { return "sha256:0", []string{"a rule that does nothing"}, nil }
	if c := byID(t, o.Examine(context.Background()), "config"); c.Status != kernel.Warn {
		t.Errorf("a notice is no warning: %+v", c)
	}
	o.Dirs = func() (xdg.Dirs, error) { return xdg.Dirs{}, errors.New("HOME is not set") }
	if c := byID(t, o.Examine(context.Background()), "folders"); c.Status != kernel.Fail || c.Fix == "" {
		t.Errorf("%+v", c)
	}
}

func TestUserNamespacesAreExcusedByALevelThatNeedsNone(t *testing.T) {
	for _, there := range []bool{true, false} {
		d := Diagnosis{Checks: []Check{{ID: "userns", Status: kernel.Fail, Fix: "a setting"}, {ID: "mounts", Status: kernel.Fail}},
			Isolation: []Isolation{{Name: levelUser, Available: there}}}
		d.excuse(levelUser)
		if excused := d.Checks[0].Status == kernel.Warn; excused != there {
			t.Errorf("with the level available: %v, excused: %v", there, excused)
		}
		if !there && !strings.Contains(d.Checks[0].Fix, "cloister setup local-user") {
			t.Errorf("the way to that level is not named: %q", d.Checks[0].Fix)
		}
		if d.Checks[1].Status != kernel.Fail {
			t.Error("another failure was excused")
		}
	}
}
