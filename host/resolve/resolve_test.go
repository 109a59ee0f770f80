package resolve_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/host/resolve"
	"cloister/host/taint"
)

// world is a host with a payload's place in it.
type world struct {
	t                    *testing.T
	base, project, state string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, base: base, project: filepath.Join(base, "project"), state: filepath.Join(base, "state")}
	for _, dir := range []string{w.project, filepath.Join(base, "secret"), filepath.Join(base, "bin"), filepath.Join(w.project, "bin")} {
		w.must(os.MkdirAll(dir, 0o755))
	}
	w.must(w.resolver().Places().Enter(taint.Place{Kind: taint.Project, Path: w.project}))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) resolver() *resolve.Resolver {
	w.t.Helper()
	places, err := taint.Read(w.state)
	w.must(err)
	return resolve.New(places, os.Getuid())
}

func (w *world) at(rel string) string { return filepath.Join(w.base, rel) }

func (w *world) link(to, rel string) { w.t.Helper(); w.must(os.Symlink(to, w.at(rel))) }

func (w *world) program(rel string, mode os.FileMode) {
	w.t.Helper()
	w.must(os.WriteFile(w.at(rel), []byte("#!/bin/sh\n"), mode))
	w.must(os.Chmod(w.at(rel), mode))
}

func TestWhoChoseWhereAPathLeads(t *testing.T) {
	w := newWorld(t)
	w.link("../secret", "project/out")
	w.link(w.at("secret"), "project/abs")
	w.link("project/out", "chain")    // the person's own link, to the payload's
	w.link("secret", "own")           // the person's own
	w.link("project", "alias")        // another name of the project
	w.link("bin", "project/inside")   // from the project into it
	w.link("loop", "project/loop")    //
	w.link("absent", "project/blank") //
	for path, want := range map[string]struct{ real, link, place string }{
		"secret":             {"secret", "", ""},
		"own":                {"secret", "", ""},
		"alias/bin":          {"project/bin", "", "project"},
		"project/bin":        {"project/bin", "", "project"},
		"project/out":        {"secret", "project/out", ""},
		"project/abs":        {"secret", "project/abs", ""},
		"chain":              {"secret", "project/out", ""},
		"alias/out":          {"secret", "project/out", ""},
		"project/inside":     {"project/bin", "project/inside", "project"},
		"project/bin/../out": {"secret", "project/out", ""},
	} {
		f, err := w.resolver().Find(w.at(path))
		link := ""
		if want.link != "" {
			link = w.at(want.link)
		}
		place := ""
		if want.place != "" {
			place = w.at(want.place)
		}
		if err != nil || f.Real != w.at(want.real) || f.Link != link || f.Place != place {
			t.Errorf("%s: %+v, %v", path, f, err)
		}
		if chosen := f.Chosen(); (chosen != nil) != (link != "") || chosen != nil && !strings.Contains(chosen.Error(), f.Real) {
			t.Errorf("%s: %v", path, chosen)
		}
	}
	for _, path := range []string{"project/loop", "project/blank", "absent"} {
		if f, err := w.resolver().Find(w.at(path)); err == nil {
			t.Errorf("%s: %+v", path, f)
		}
	}
	if f, err := w.resolver().Find("/proc/self/cwd/x"); err == nil {
		t.Errorf("a link of a process is followed: %+v", f)
	}
	if _, err := w.resolver().Find("relative"); err == nil {
		t.Error("a path that is not whole is resolved")
	}
}

func TestPlaceStaysOneAfterItMoved(t *testing.T) {
	w := newWorld(t)
	w.must(os.Rename(w.project, w.at("moved")))
	w.link("../secret", "moved/out")
	if f, err := w.resolver().Find(w.at("moved/out")); err != nil || f.Link == "" {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := w.resolver().Find(w.at("moved/bin")); err != nil || f.Place != w.project {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestProgramsAreFoundOnlyWhereNobodyElseWrites(t *testing.T) {
	w := newWorld(t)
	w.program("project/bin/git", 0o755)
	w.program("bin/gh", 0o755)
	w.program("bin/open", 0o777)
	w.program("bin/plain", 0o644)
	w.link("../project/bin/git", "bin/borrowed")
	w.link("gh", "bin/alias")
	w.must(os.MkdirAll(w.at("wide"), 0o755))
	w.program("wide/tool", 0o755)
	w.must(os.Chmod(w.at("wide"), 0o777))
	path := strings.Join([]string{"", ".", "bin", w.at("project/bin"), w.at("wide"), w.at("absent"), w.at("bin")}, ":")
	for name, real := range map[string]string{"gh": "bin/gh", "alias": "bin/gh", w.at("bin/gh"): "bin/gh"} {
		if p, err := w.resolver().Program(name, path); err != nil || p.Real != w.at(real) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for _, name := range []string{"git", "open", "borrowed", "tool", "plain", "absent", "./gh", "", w.at("project/bin/git"), w.at("wide/tool")} {
		if p, err := w.resolver().Program(name, path); err == nil {
			t.Errorf("%s: found at %s", name, p.Path)
		}
	}
	var u *resolve.Untrusted
	if _, err := w.resolver().Program("git", path); !errors.As(err, &u) || !strings.Contains(err.Error(), w.project) {
		t.Errorf("a planted program is not named: %v", err)
	}
	if got := w.resolver().Path(path); got != w.at("bin") {
		t.Errorf("PATH: %q", got)
	}
	w.must(os.Chmod(w.at("wide"), 0o777|os.ModeSticky)) // nobody else renames what is mine in there
	if _, err := w.resolver().Program("tool", path); err != nil {
		t.Errorf("in a folder as /tmp is: %v", err)
	}
	if os.Getuid() == 0 {
		w.must(os.Chown(w.at("bin/gh"), 1000, 1000))
		if p, err := w.resolver().Program("gh", path); err == nil {
			t.Errorf("root would run %s of another user", p.Path)
		}
		w.must(os.Chown(w.at("bin/gh"), 0, 0))
		w.must(os.Chown(w.at("bin"), 1000, 1000))
		if p, err := w.resolver().Program("gh", path); err == nil {
			t.Errorf("root would run %s in another user's folder", p.Path)
		}
		w.link("../secret", "bin/elsewhere")
		if f, err := w.resolver().Find(w.at("bin/elsewhere")); err != nil || f.Link == "" {
			t.Errorf("root follows another user's link: %+v, %v", f, err)
		}
	}
}

func TestReadingFollowsNoLink(t *testing.T) {
	w := newWorld(t)
	w.must(os.WriteFile(w.at("secret/key"), []byte("k"), 0o600))
	w.link("../secret", "project/out")
	w.link("../secret/key", "project/key")
	for _, path := range []string{"project/out/key", "project/key"} {
		if text, err := resolve.ReadFile(w.at(path), 10); err == nil {
			t.Errorf("%s: read %q", path, text)
		}
	}
	if _, err := resolve.ReadDir(w.at("project/out")); err == nil {
		t.Error("a folder is listed through a link")
	}
	if text, err := resolve.ReadFile(w.at("secret/key"), 1); err != nil || string(text) != "k" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := resolve.ReadFile(w.at("secret/key"), 0); err == nil {
		t.Error("more than the bound is read")
	}
	var seen []string
	w.must(resolve.Walk(w.project, func(path string, _ os.DirEntry, err error) error {
		seen = append(seen, strings.TrimPrefix(path, w.project))
		return err
	}))
	if got := strings.Join(seen, " "); got != " /bin /key /out" {
		t.Errorf("walked %q", got)
	}
}
