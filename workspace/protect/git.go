package protect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cloister/host/resolve"
	"cloister/sandbox"
	"cloister/workspace/gitdir"
	"cloister/workspace/stubs"
)

// gitParts are the protected paths of a git folder, with what holds an absent one. Git
// needs to write everything else: it makes a file of its own beside HEAD, the index and
// packed-refs and renames it, so that its folder stays writable. What is there that is
// not of git's known shape is listed at the end (gitdir.Known).
var gitParts = []struct {
	path   string
	absent stubs.Kind
}{
	{"hooks", stubs.Folder}, {"config", stubs.Leave}, {"config.worktree", stubs.File}, {"info", stubs.Folder},
	// Remotes as git had them before its configuration, which it still obeys.
	{"remotes", stubs.Folder}, {"branches", stubs.Folder},
	// A main git folder is led elsewhere by a commondir too. An empty folder would
	// make git fail; a file that says "here" changes nothing.
	{"commondir", stubs.File},
}

// gitKept are folders of a git folder in which git writes, and that must not vanish or
// be something else: without one of them git takes another folder for the repository.
var gitKept = []string{"objects", "refs", "reftable"}

// alternates leads git to the objects of another repository. Empty it says nothing.
const alternates = "objects/info/alternates"

// Repository protects what git runs or is led by in a git folder.
func (t *Tree) Repository(base string) error {
	for _, a := range gitParts {
		if err := t.Path(filepath.Join(base, a.path), a.absent); err != nil {
			return err
		}
	}
	t.keepParts(base)
	if fi, err := os.Lstat(filepath.Join(t.root, base, filepath.Dir(alternates))); err == nil && fi.IsDir() {
		if err := t.Path(filepath.Join(base, alternates), stubs.File); err != nil {
			return err
		}
	}
	return t.Modules(base)
}

// keepParts holds the folders in which git writes.
func (t *Tree) keepParts(base string) {
	for _, name := range gitKept {
		rel := filepath.Join(base, name)
		if fi, err := os.Lstat(filepath.Join(t.root, rel)); err == nil && fi.IsDir() && !t.covered(rel) {
			t.pin(rel)
			t.keep(rel)
		}
	}
}

// Top keeps git of the host from taking the project's top for a repository without a
// .git, which it does as soon as .git is none: what stands for a commondir there ends
// every such reading (get_common_dir of git's setup.c).
func (t *Tree) Top() error {
	const name = gitdir.TopGuard
	fi, err := os.Lstat(filepath.Join(t.root, name))
	_, head := os.Lstat(filepath.Join(t.root, "HEAD"))
	if err == nil && fi.IsDir() && head == nil {
		t.hold(name, stubs.Folder) // an earlier session's, which is taken away with this one's
		return nil
	}
	if gitdir.Looks(t.root) {
		return t.Repository(".") // it is one
	}
	return t.Path(name, stubs.Folder)
}

// nested protects a git folder below the top. Of what is absent there nothing is held:
// a project may have hundreds, and what appears is listed at the end.
func (t *Tree) nested(git string) error {
	if err := t.present(git); err != nil {
		return err
	}
	return t.Modules(git)
}

// present protects what a git folder has of what git obeys.
func (t *Tree) present(git string) error {
	full := filepath.Join(t.root, git)
	repository := false
	for _, a := range gitParts {
		absent := stubs.Leave
		if a.path == "commondir" && repository {
			absent = stubs.File
		}
		if a.path == "config.worktree" && worktreeConfig(full) {
			absent = stubs.File
		}
		rel := filepath.Join(git, a.path)
		if _, err := os.Lstat(filepath.Join(t.root, rel)); err != nil && absent == stubs.Leave {
			continue
		}
		if a.path == "config" {
			repository = true
		}
		if err := t.Path(rel, absent); err != nil {
			return err
		}
	}
	t.keepParts(git)
	rel := filepath.Join(git, alternates)
	if _, err := os.Lstat(filepath.Join(t.root, rel)); err == nil {
		return t.Path(rel, stubs.Leave)
	}
	return nil
}

// worktreeConfig reports whether git looks for a config.worktree in a git folder.
func worktreeConfig(dir string) bool {
	switch strings.ToLower(gitdir.Last(gitdir.Read(filepath.Join(dir, "config")), "extensions", "worktreeconfig")) {
	case "false", "no", "off", "0":
		return false
	case "":
		// A key alone means true, and there is none where the key is not there.
		return slices.ContainsFunc(gitdir.Read(filepath.Join(dir, "config")), func(e gitdir.Entry) bool {
			return e.Section == "extensions" && e.Key == "worktreeconfig"
		})
	}
	return true
}

// Modules protects what git obeys of the submodules of one git folder.
func (t *Tree) Modules(git string) error {
	m := &modules{common: filepath.Join(t.root, git)}
	m.walk("modules", 0)
	for _, rel := range m.shut {
		t.Close([]string{filepath.Join(git, rel)})
	}
	if m.err != nil {
		return t.give(Unprotected{Path: cmp.Or(m.deep, filepath.Join(m.common, "modules")), Why: m.err.Error()})
	}
	if n := len(m.found); n > maxSubmodules {
		return t.give(Unprotected{
			Path: filepath.Join(m.common, "modules"), Must: true,
			Why: "it holds the git folders of " + strconv.Itoa(n) + " submodules, and a start holds " +
				strconv.Itoa(maxSubmodules),
		})
	}
	for _, rel := range m.found {
		dir := filepath.Join(git, rel)
		if err := t.present(dir); err != nil {
			return err
		}
		for _, name := range []string{"config", "config.worktree"} {
			t.unplace(filepath.Join(dir, name))
		}
	}
	return nil
}

// modules finds the git folders of submodules, relative to the common git folder.
type modules struct {
	common      string
	found, shut []string
	seen        int
	err         error
	deep        string // a folder deeper than a submodule's lies
}

// walk takes every folder for a git folder that has one part of one: an earlier session
// may have taken its HEAD away. What lies in it besides may be another submodule's, whose
// name has a slash.
func (m *modules) walk(rel string, depth int) {
	full := filepath.Join(m.common, rel)
	if shut(full) {
		m.shut = append(m.shut, rel)
		return
	}
	entries, err := resolve.ReadDir(full)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrInvalid) {
			m.unlessFile(full, err)
		}
		return
	}
	if m.seen += len(entries); m.seen > maxModules || depth > maxModuleDepth {
		m.err = fmt.Errorf("the git folders of submodules have more files than a start looks at, or lie too deep: %s",
			quoted(full))
		if depth > maxModuleDepth {
			m.deep = full
		}
		return
	}
	isGit := false
	for _, e := range entries {
		switch e.Name() {
		case "HEAD", "config", "config.worktree", "commondir", "hooks", "objects", "refs", "info", "remotes", "branches":
			isGit = isGit || rel != "modules"
		}
	}
	if isGit {
		m.found = append(m.found, rel)
	}
	for _, e := range entries {
		if e.IsDir() && m.err == nil && (!isGit || !slices.Contains(gitData, e.Name())) {
			m.walk(filepath.Join(rel, e.Name()), depth+1)
		}
	}
}

func (m *modules) unlessFile(full string, err error) {
	if fi, serr := os.Stat(full); serr == nil && fi.IsDir() {
		m.err = err
	}
}

// gitData are the folders of a git folder in which no git folder of a submodule lies.
var gitData = []string{"objects", "refs", "logs", "hooks", "info", "lfs", "remotes", "branches", "reftable", "rr-cache",
	"rebase-merge", "rebase-apply", "sequencer"}

const (
	maxModules     = 500_000
	maxModuleDepth = 60
	maxSubmodules  = 1000 // a dozen covers each
)

// unplace shows a submodule's settings without the place of its working tree. Git
// writes that anew whenever it updates a submodule whose settings have it
// (ensure_core_worktree of its submodule--helper), and ends where it cannot. It
// finds the working tree without: by the pointer that led to the git folder.
//
// What is shown is as the settings were at the start. A file that another cloister
// of the project exchanges meanwhile gives nothing away: it lies below the same
// top, and has to be settings of git that name a place.
func (t *Tree) unplace(rel string) {
	full := filepath.Join(t.root, rel)
	i := slices.IndexFunc(t.list.Protect, func(p sandbox.Protect) bool {
		return string(p.Target) == full && p.File && !p.Empty
	})
	if i < 0 {
		return
	}
	text, ok := gitdir.Text(t.root, rel)
	if !ok {
		return // too much, or not to be read: git inside finds what the host has
	}
	if shown, ok := gitdir.WithoutPlace(text); ok {
		f := sandbox.File{Path: sandbox.GuestPath(fmt.Sprintf("/.cloister/git/%d", len(t.list.Files))), Data: []byte(shown),
			Mode: 0o444}
		t.list.Files, t.list.Protect[i].Instead = append(t.list.Files, f), f.Path
	}
}
