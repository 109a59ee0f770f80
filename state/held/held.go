// Package held finds the changes that an apply brings over only with a word of the
// person's own: what programs of the host run or obey, and links that lead elsewhere.
//
// The promise: a change is held by its own path, by the path that a rename takes away, by
// a link that such programs would follow to it, and by the shape of its folder where git
// would take that for a repository. What cannot be looked at is held.
//
// It knows no list of names: its caller says which path runs by itself. Links of the person
// are looked for at the project's top and in the folders above each change, not in all others.
//
// The call most readers want is [Find].
package held

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"cloister/internal/realpath"
	"cloister/state/layers"
)

// Change is a path that needs a word, with the reason.
type Change struct {
	Path string
	Why  string
}

const (
	byName  = "programs of the host may run or follow it"
	outside = "the link leads out of the project"
	folder  = "programs of the host may follow the link to what they run"
	gone    = "programs of the host may run or obey what is taken away"
	bare    = "git may take its folder for a repository, and obeys this"
)

// Find gives the changes of a list that are held. runs reports whether programs of the
// host run or obey a file by its path in the project.
func Find(project string, list []layers.Change, runs func(path string) bool) ([]Change, error) {
	top, err := layers.OpenFolder(project)
	if err != nil {
		return nil, err
	}
	defer func() { _ = top.Close() }()
	f := &finder{
		project: project, top: top, runs: runs,
		now: map[string]layers.Change{}, repos: map[string]bool{}, listed: map[string]bool{},
	}
	for _, c := range list {
		f.now[c.Path] = c
		if c.From != "" {
			f.now[c.From] = layers.Change{Path: c.From, Op: layers.Deleted}
		}
	}
	f.links(".")
	for _, c := range list {
		for dir := path.Dir(c.Path); dir != "."; dir = path.Dir(dir) {
			f.links(dir)
		}
	}
	var out []Change
	for _, c := range list {
		if c.Implied {
			continue
		}
		if why := f.why(c); why != "" {
			out = append(out, Change{c.Path, why})
		}
	}
	return out, nil
}

type finder struct {
	project string
	top     *layers.Folder
	runs    func(string) bool
	now     map[string]layers.Change // what becomes of a path
	repos   map[string]bool          // folders that git takes for a repository afterwards
	listed  map[string]bool          // folders whose links are known
	led     []string                 // paths to which such links of the person lead
}

func (f *finder) why(c layers.Change) string {
	switch {
	case f.runs(c.Path):
		return byName
	case c.From != "" && f.runs(c.From):
		return gone
	case c.New.Kind == layers.Link && leadsOut(c.Path, c.New.Target):
		return outside
	case c.New.Kind == layers.Link && f.runsBelow(c.Path):
		return folder
	case c.Old.Kind == layers.Link && f.runsBelow(cmp.Or(c.From, c.Path)):
		return gone
	case f.ofRepository(c.Path):
		return bare
	case slices.ContainsFunc(f.led, func(p string) bool { return c.Path == p || strings.HasPrefix(c.Path, p+"/") }):
		return byName
	}
	return ""
}

// settings are what programs look for in a folder of their own: below a name of theirs one
// of them runs by itself.
var settings = []string{
	"config", "hgrc", "defaults", "config.toml", "repo/config.toml", "prefs/defaults", "hooks/x", "workflows/x",
}

// runsBelow reports whether a folder of that path would hold what runs by itself.
func (f *finder) runsBelow(name string) bool {
	return slices.ContainsFunc(settings, func(s string) bool { return f.runs(name + "/" + s) })
}

// leadsOut reports whether a link leads out of the project, or may: a ".." that comes after
// a name is of where that name leads, which may be a link too.
func leadsOut(name, target string) bool {
	if strings.HasPrefix(target, "/") {
		return true
	}
	depth, named := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "..":
			if depth--; named || depth < 0 {
				return true
			}
		case ".", "":
		default:
			named = true
		}
	}
	return false
}

// ofRepository reports whether a path is one that git obeys in a folder that it takes for
// a repository by its shape, with no .git about it (gitrepository-layout(5)).
func (f *finder) ofRepository(name string) bool {
	parts := strings.Split(name, "/")
	last := strings.ToLower(parts[len(parts)-1])
	for i := range parts {
		dir := strings.Join(parts[:i], "/")
		inside := strings.ToLower(strings.Join(parts[i:], "/"))
		switch {
		case inside == "config", inside == "config.worktree", inside == "commondir", inside == "head",
			inside == "info/attributes", strings.HasPrefix(inside, "objects/info/"),
			strings.HasPrefix(inside, "hooks/") && !strings.HasSuffix(last, ".sample"),
			strings.HasPrefix(inside, "modules/"), strings.HasPrefix(inside, "worktrees/"):
		case inside == "objects", inside == "refs", inside == "hooks", inside == "info":
			if f.now[name].New.Kind != layers.Link {
				continue // what is in it is looked at by itself
			}
		default:
			continue
		}
		if f.repository(dir) {
			return true
		}
	}
	return false
}

// repository reports whether git takes a folder for a repository once all is applied.
func (f *finder) repository(dir string) bool {
	is, known := f.repos[dir]
	if !known {
		is = f.has(path.Join(dir, "HEAD")) &&
			(f.has(path.Join(dir, "commondir")) || f.has(path.Join(dir, "objects")) && f.has(path.Join(dir, "refs")))
		f.repos[dir] = is
	}
	return is
}

// has reports whether a path is there once all is applied. One that cannot be looked at
// counts.
func (f *finder) has(name string) bool {
	if c, ok := f.now[name]; ok {
		return c.New.Exists()
	}
	node, err := f.stat(name)
	return err != nil || node.Exists()
}

func (f *finder) stat(name string) (layers.Node, error) {
	dir, last, err := layers.Parent(f.top, name)
	if err != nil {
		if layers.Absent(err) {
			return layers.Node{}, nil
		}
		return layers.Node{}, err
	}
	defer func() { _ = dir.Close() }()
	return dir.Stat(last)
}

// links notes where the links of a folder lead that programs of the host follow to what
// they run.
func (f *finder) links(dir string) {
	if f.listed[dir] {
		return
	}
	f.listed[dir] = true
	open, last, err := layers.Parent(f.top, dir)
	if err != nil {
		return // it is new, or no folder: it has no link of the person
	}
	defer func() { _ = open.Close() }()
	sub, err := open.Folder(last)
	if err != nil {
		return
	}
	defer func() { _ = sub.Close() }()
	names, err := sub.Names()
	if err != nil {
		return
	}
	for _, n := range names {
		full := path.Join(dir, n)
		if !f.runs(full) && !f.runsBelow(full) {
			continue
		}
		node, err := sub.Stat(n)
		if err != nil || node.Kind != layers.Link {
			continue
		}
		to, err := realpath.Of(filepath.Join(f.project, full))
		if err != nil {
			to = filepath.Join(f.project, path.Dir(full), node.Target) // to what is not there yet
		}
		if rel, err := filepath.Rel(f.project, to); err == nil && filepath.IsLocal(rel) {
			f.led = append(f.led, filepath.ToSlash(rel))
		}
	}
}
