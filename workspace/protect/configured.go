package protect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
	"cloister/workspace/gitdir"
	"cloister/workspace/stubs"
)

// passive are the sections whose values name no program and no file that git
// runs or obeys.
var passive = []string{"branch", "remote", "url", "submodule", "user", "extensions", "color", "push", "pull", "fetch",
	"init"}

// maxIncludes bounds the files that include each other.
const maxIncludes = 256

// Places are where git of the host has its configuration for one repository.
type Places struct {
	Common, Dir string   // the repository's git folder, and that of the working tree
	Home        string   // the person's; may be empty
	Files       []string // that git names as its sources
	Entries     []gitdir.Entry
}

// Configured protects the paths inside the project that the configuration of git names:
// hook folders, included files, programs, templates, repositories to push to. Whoever
// writes there is run by git. A file that another includes on a condition counts:
// git inside can change what the condition asks.
func (t *Tree) Configured(p Places) error {
	files := append([]string{filepath.Join(p.Common, "config"), filepath.Join(p.Dir, "config.worktree")}, p.Files...)
	if p.Home != "" {
		files = append(files, filepath.Join(p.Home, ".gitconfig"), filepath.Join(p.Home, ".config/git/config"))
	}
	c := &configured{t: t, p: p, files: files, seen: map[string]bool{}}
	for _, e := range p.Entries {
		if err := c.entry(e, t.root); err != nil {
			return err
		}
	}
	for len(c.files) > 0 {
		file := c.files[0]
		c.files = c.files[1:]
		if c.seen[file] {
			continue
		}
		if c.seen[file] = true; len(c.seen) > maxIncludes {
			return t.give(Unprotected{Path: file, Why: "more files of git's configuration include each other than a start " +
				"looks at"})
		}
		if err := c.target(file, stubs.Leave); err != nil {
			return err
		}
		var entries []gitdir.Entry
		repository := p.Common != "" && (realpath.Inside(file, p.Common) || realpath.Inside(file, p.Dir))
		if repository || realpath.Inside(file, t.root) {
			var linked bool
			if entries, linked = gitdir.Settings(file); linked {
				why := "a link leads to it, and what git would obey there is not read"
				if err := t.give(Unprotected{Path: file, Why: why}); err != nil {
					return err
				}
			}
		} else {
			entries = gitdir.ReadOwn(file)
		}
		for _, e := range entries {
			if err := c.entry(e, filepath.Dir(file)); err != nil {
				return err
			}
		}
	}
	return nil
}

type configured struct {
	t     *Tree
	p     Places
	files []string
	seen  map[string]bool
}

// entry protects what one setting names; dir is where its file lies.
func (c *configured) entry(e gitdir.Entry, dir string) error {
	if e.Section == "url" && e.Subsection != "" {
		return c.repository(e.Subsection)
	}
	if e.Value == "" {
		return nil
	}
	switch {
	case (e.Section == "include" || e.Section == "includeif") && e.Key == "path":
		path := pathIn(e.Value, dir, c.p.Home)
		if path == "" {
			return nil
		}
		c.files = append(c.files, path)
		return c.target(path, stubs.File)
	case e.Section == "remote" && (e.Key == "url" || e.Key == "pushurl" || e.Key == "pushdefault"),
		e.Section == "submodule" && e.Key == "url",
		e.Section == "branch" && (e.Key == "remote" || e.Key == "pushremote"):
		return c.repository(e.Value)
	case e.Section == "init" && e.Key == "templatedir", e.Section == "submodule" && e.Key == "update",
		e.Section == "remote" && (e.Key == "uploadpack" || e.Key == "receivepack"):
	case slices.Contains(passive, e.Section):
		return nil
	}
	for _, word := range append(strings.Fields(e.Value), e.Value) {
		path := pathIn(strings.Trim(word, "!\"'"), c.t.root, c.p.Home)
		if path == "" {
			continue
		}
		absent := stubs.Leave
		switch {
		case e.Section == "core" && e.Key == "hookspath", e.Section == "init" && e.Key == "templatedir":
			absent = stubs.Folder
		case e.Section == "core" && (e.Key == "attributesfile" || e.Key == "excludesfile"):
			absent = stubs.File
		}
		if err := c.target(path, absent); err != nil {
			return err
		}
	}
	return nil
}

// target protects a path that lies in the project. What git itself writes there it can
// go on to write.
func (c *configured) target(path string, absent stubs.Kind) error {
	rel, ok := c.t.rel(path)
	if !ok || rel == "" {
		return nil
	}
	if in, ok := strings.CutPrefix(path, c.p.Common+"/"); ok {
		first, _, _ := strings.Cut(in, "/")
		if in == "" || slices.Contains(gitWritten, first) {
			return nil
		}
	}
	if path == c.p.Common {
		return nil
	}
	if _, err := os.Lstat(path); err != nil && absent == stubs.Leave {
		return nil
	}
	return c.t.Path(rel, absent)
}

// gitWritten are the parts of a git folder that git writes, whoever names them.
var gitWritten = []string{"HEAD", "index", "objects", "refs", "reftable", "logs", "packed-refs", "modules", "worktrees",
	"config"}

// repository protects one in the project that git fetches from or pushes to: it runs
// that one's hooks.
func (c *configured) repository(url string) error {
	path := pathIn(strings.TrimPrefix(url, "file://"), c.t.root, c.p.Home)
	if path == "" || path == c.t.root {
		return nil
	}
	for _, dir := range []string{path, filepath.Join(path, ".git"), path + ".git"} {
		rel, ok := c.t.rel(dir)
		if !ok || rel == "" || realpath.Inside(dir, c.p.Common) && dir == c.p.Common {
			continue
		}
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() && gitdir.Looks(dir) {
			if err := c.t.Path(filepath.Join(rel, "hooks"), stubs.Folder); err != nil {
				return err
			}
			if err := c.t.present(rel); err != nil {
				return err
			}
		}
	}
	return nil
}

// pathIn makes a word of the configuration a path; empty where it is none.
func pathIn(word, base, home string) string {
	switch {
	case word == "" || word == "." || strings.ContainsAny(word, "\x00\n") || strings.Contains(word, "://"):
		return ""
	case word == "~" || strings.HasPrefix(word, "~/"):
		if home == "" {
			return ""
		}
		return filepath.Join(home, word[1:])
	case filepath.IsAbs(word):
		return filepath.Clean(word)
	}
	return filepath.Join(base, word)
}
