// Package filerule finds what could keep a Cedar statement about files and programs.
//
// The promise: of every statement it says by what means all of it can be kept, path by path,
// or that none of those keeps it, with the reason; it never says more than is kept. A permit
// that names paths makes a list: of what it speaks, opening or executing, only what some
// permit names is permitted, as Cedar decides.
//
// It looks at no file system, and knows no driver: whoever builds a cloister says which
// means it has.
//
// Most readers want [Of].
package filerule

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"

	"cloister/internal/pathglob"
	"cloister/internal/realpath"
)

// The actions of files and programs, as schema.cedarschema has them.
const (
	Open      = "FileOpen"
	OpenRead  = "FileOpenReadOnly"
	OpenWrite = "FileOpenReadWrite"
	Execute   = "ProcessExec"
)

// Is reports whether an action is one of these.
func Is(action string) bool {
	return action == Open || action == OpenRead || action == OpenWrite || action == Execute
}

// Means is what can keep a statement. Its zero value is that nothing can.
type Means uint8

// The means.
const (
	Nothing Means = iota
	Kernel        // the kernel's own judge
	List          // a list of what alone is permitted
	View          // what is shown of the host's files
	Itself        // it refuses nothing
)

// Statement is what a policy says of one action.
type Statement struct {
	Action    string
	Forbids   bool
	Asks      bool
	Anyone    bool // of every session
	Plain     bool // Resources are all that it says
	Resources []types.EntityUID
}

// Held is by which means it is kept, in words too.
type Held struct {
	Means     Means
	By, Why   string
	Closed    []Path      // what a forbid takes away
	Permitted []Permitted // what a permit leaves
}

// Path is a path that a statement forbids to open.
type Path struct {
	Path string // absolute and clean
	Dir  bool   // with all below it
	Glob bool   // Path is a pattern (internal/pathglob)
	In   string // the project, for a pattern that does not begin with /; empty until that is known
	// Digest is that of the content with which alone it is meant, in hexadecimal digits; empty for any.
	Digest string
	Write  bool // reading stays
	Exec   bool // reading and writing stay
	Ask    Asks // a person may open it after all
}

// Fixed reports whether it lies where nothing of any cloister's is written, so that what was looked at is what is
// executed.
func (p Path) Fixed() bool { return fixed(p.Path) }

func fixed(at string) bool { return realpath.Inside(at, "/usr") || realpath.Inside(at, "/opt") }

// Permitted is a path that a statement permits to use.
type Permitted struct {
	Path string // absolute and clean
	Dir  bool   // with all below it
	Glob bool   // Path is a pattern, as above
	In   string
	// Digest is that of the file's content, in hexadecimal digits; empty for any.
	Digest string
	Read   bool
	Write  bool
	Exec   bool
}

// WritesAll reports whether everything may be written.
func (p Permitted) WritesAll() bool { return p.Path == "/" && p.Dir && p.Write }

// Of finds what keeps a statement. A view and a list are made before anything runs, so
// that only what names its paths outright can be in them.
func Of(s Statement) Held {
	everything := s.Plain && s.Anyone && len(s.Resources) == 0
	for _, u := range s.Resources {
		everything = everything || s.Plain && s.Anyone && u.Type == "Dir" && path.Clean(string(u.ID)) == "/"
	}
	switch {
	case !s.Forbids && !s.Asks && everything:
		return all(s.Action)
	case !s.Plain:
		return Held{Why: "only a policy that names its paths outright can be kept, as resource == or resource in, " +
			"without another condition"}
	case !s.Anyone:
		return Held{Why: "a policy about files for one session, project or agent cannot be kept"}
	case everything:
		return Held{Why: "a cloister without files to open is none"}
	}
	paths, why := named(s.Resources)
	switch {
	case why != "":
		return Held{Why: why}
	case s.Asks:
		return asked(s.Action, paths)
	case !s.Forbids:
		return list(s.Action, paths)
	}
	return forbidden(s.Action, paths)
}

// named are the files and folders among resources.
func named(uids []types.EntityUID) (paths []Path, why string) {
	for _, u := range uids {
		name := string(u.ID)
		switch {
		case u.Type == "Glob":
			if _, err := pathglob.Parse(name); err != nil {
				return nil, err.Error()
			}
			paths = append(paths, Path{Path: name, Glob: true})
			continue
		case u.Type == "Program":
			p, err := program(name)
			if err != "" {
				return nil, err
			}
			paths = append(paths, p)
			continue
		case u.Type != "Dir" && u.Type != "File":
			continue
		case !path.IsAbs(name) || strings.ContainsAny(name, "*?\x00"):
			return nil, fmt.Sprintf("%q is not an absolute path without wildcards; Glob:: has them", name)
		}
		paths = append(paths, Path{Path: path.Clean(name), Dir: u.Type == "Dir"})
	}
	if len(paths) == 0 {
		return nil, "it names no file, folder or pattern"
	}
	return paths, ""
}

// program reads a program that is named with its digest.
func program(name string) (Path, string) {
	at, sum, ok := strings.Cut(name, "@sha256:")
	const digits = 64
	if !ok || len(sum) != digits || strings.Trim(sum, "0123456789abcdef") != "" {
		return Path{}, fmt.Sprintf("%q is not PATH@sha256: with 64 hexadecimal digits", name)
	}
	if !path.IsAbs(at) || strings.ContainsAny(at, "\x00") {
		return Path{}, fmt.Sprintf("%q is not an absolute path", at)
	}
	return Path{Path: path.Clean(at), Digest: sum}, ""
}

// forbidden keeps a forbid.
func forbidden(action string, paths []Path) Held {
	if i := slices.IndexFunc(paths, func(p Path) bool { return p.Digest != "" && !p.Fixed() }); i >= 0 {
		return Held{Why: fmt.Sprintf("%q could be written after it was looked at: only what lies in /usr and /opt is "+
			"forbidden by its digest; forbid it as File::, or permit the programs that may run", paths[i].Path)}
	}
	h := Held{Means: View, By: "the view: what is named is shown empty", Closed: paths}
	if action == OpenWrite {
		h.By = "the view: what is named is read-only"
	}
	for _, p := range paths {
		if p.Glob {
			h.By = "the view: what the pattern names at the start is shown empty, or read-only; weakly what appears later: " +
				"it is refused by its name (native)"
			h.Why = "only native refuses by its name what appears later and a pattern names"
		}
	}
	if slices.ContainsFunc(paths, func(p Path) bool { return p.Digest != "" }) {
		h.By += "; a program with a digest where it has it when a session starts (native)"
		h.Why = "only native looks at programs: one with another digest is not forbidden"
	}
	for _, p := range paths {
		if action == Execute && p.Dir {
			h.Means, h.By = Kernel, "the kernel: nothing in it is executed or mapped as code"
			h.Why = fmt.Sprintf("programs in the folder %s cannot be kept from running while its files are "+
				"shown; name the programs as File::", p.Path)
		}
	}
	for i := range paths {
		paths[i].Write, paths[i].Exec = action == OpenWrite, h.Means == Kernel
	}
	return h
}

// all is a permit of everything. One to read alone still is a list: of what may be written.
func all(action string) Held {
	p := Permitted{Path: "/", Dir: true, Read: action != Execute, Write: action == Open || action == OpenWrite,
		Exec: action == Execute}
	if action == OpenRead {
		h := list(action, nil)
		h.Permitted = []Permitted{p}
		return h
	}
	return Held{Means: Itself, Permitted: []Permitted{p},
		By: "nothing is refused by it; a permit shows nothing more of the host either: --expose does"}
}

// list keeps a permit: what it speaks of is permitted where a permit names it, and nowhere else.
func list(action string, paths []Path) Held {
	h := Held{Means: List, Why: "only native, or docker with the kernel's judge, has lists"}
	h.By = "a list, weakly (Landlock): no other file is opened to read or to write, but names and attributes are seen, " +
		"and " +
		"what was opened before is"
	if action == Execute {
		h.By = "a list, weakly (Landlock): no other file is executed, but a loader or interpreter that is permitted runs " +
			"what it may read"
	}
	if slices.ContainsFunc(paths, func(p Path) bool { return p.Digest != "" }) {
		h.By += "; a program with a digest has it when a session starts, and lies where nothing inside writes"
	}
	for _, p := range paths {
		if p.Glob {
			h.By += "; of a pattern what it names at the start, and nothing that appears later"
			break
		}
	}
	for _, p := range paths {
		h.Permitted = append(h.Permitted, Permitted{
			Path: p.Path, Dir: p.Dir, Glob: p.Glob, Digest: p.Digest,
			Read: action != Execute, Write: action == Open || action == OpenWrite, Exec: action == Execute,
		})
	}
	return h
}
