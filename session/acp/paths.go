package acp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cloister/internal/realpath"
	"cloister/sandbox"
	"cloister/workspace/protect"
)

// Paths are what an editor may open of a project for an agent.
type Paths struct {
	root    string
	covered []sandbox.Protect
	held    func(rel string) bool
	hide    protect.Patterns
}

// NewPaths are those of the project at root. covered are the paths that the cloister
// covers, held reports whether one is protected, and hide are the globs of hidden files.
func NewPaths(root string, covered []sandbox.Protect, held func(rel string) bool, hide []string) (*Paths, error) {
	patterns, err := protect.ParsePatterns(hide)
	return &Paths{root, covered, held, patterns}, err
}

// Closed gives why an editor may not open a path of the project, which is absolute and
// clean, or not change what is there; empty where it may. Links are followed as the host
// has them at this moment.
func (p *Paths) Closed(path string, change bool) string {
	root, err := realpath.Of(p.root)
	if err != nil {
		return "the project cannot be looked at"
	}
	real, err := existing(path)
	switch {
	case err != nil:
		return "it cannot be looked at"
	case !realpath.Inside(real, root):
		return "it leads out of the project"
	}
	seen := p.root + strings.TrimPrefix(real, root)
	for _, one := range []string{path, seen} {
		if p.hidden(one) {
			return "the rules hide it"
		}
		if rel, err := filepath.Rel(p.root, one); change && (err != nil || p.held(rel)) {
			return "it is protected"
		}
	}
	// A pipe or a device that the agent made would hold the editor.
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() && !fi.IsDir() {
		return "it is no file"
	}
	return ""
}

// existing is a path without symbolic links, of which the last parts may not exist. A link
// that leads to nothing is an error.
func existing(path string) (string, error) {
	missing := ""
	for at := path; ; at = filepath.Dir(at) {
		real, err := realpath.Of(at)
		if err == nil {
			return filepath.Join(real, missing), nil
		}
		if _, lerr := os.Lstat(at); !errors.Is(lerr, fs.ErrNotExist) || at == "/" {
			return "", err
		}
		missing = filepath.Join(filepath.Base(at), missing)
	}
}

// hidden reports whether the cloister shows a path empty, or not at all.
func (p *Paths) hidden(path string) bool {
	for _, c := range p.covered {
		if c.Empty && (string(c.Target) == path || !c.File && realpath.Inside(path, string(c.Target))) {
			return true
		}
	}
	rel, err := filepath.Rel(p.root, path)
	if err != nil {
		return true
	}
	for dir := false; rel != "." && rel != "/"; rel, dir = filepath.Dir(rel), true {
		if p.hide.Match(rel, dir) >= 0 {
			return true
		}
	}
	return false
}
