// Package toolchain finds what of the host's PATH is shown inside.
//
// The promise: nothing is shown that a payload could write, or lead elsewhere, but for
// what the session itself may write; nothing of the home where keys and logins lie; and
// no folder that holds the home, the project or Cloister's state.
//
// It shows nothing itself: workspace makes the binds.
//
// Most readers want [Find].
package toolchain

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cloister/agent"
	"cloister/host/resolve"
	"cloister/internal/realpath"
)

// System are shown by the driver; a folder of PATH in one needs no bind.
var System = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"}

// private are folders of a home that hold credentials, with those of agents. None is ever
// shown whole, whatever PATH says.
var private = sync.OnceValue(func() []string {
	return append([]string{
		".ssh", ".aws", ".azure", ".docker", ".kube", ".gnupg", ".config", ".mozilla", ".password-store",
		".local", ".cargo", ".cache", ".gcloud", ".gem", ".m2",
	}, agent.AllKept()...)
})

// credentials are file names that are hidden in a toolchain's root.
var credentials = []string{
	"credentials", "credentials.toml", "credentials.json", ".credentials.json", "config.json", ".npmrc", ".netrc",
	".pypirc",
	"auth.json", "token", "hosts.yml", ".git-credentials", "settings.xml", "config.yml", "config.yaml", "config.toml",
	"wasmer.toml",
}

// maxToolchains bounds the binds that PATH can ask for.
const maxToolchains = 64

// Root is a host folder, or a single program, that is shown read-only at its own path.
type Root struct {
	Path string
	File bool
	Hide []string // credential files in it
}

// Options are what is looked at.
type Options struct {
	Host    *resolve.Resolver
	Path    string // the host's PATH
	Home    string // the person's; may be empty
	Project string
	Own     []string // what the session may write: shown already
	KeepOut []string // Cloister's own folders
}

// Found is what is shown.
type Found struct {
	Roots   []Root
	Dirs    []string // folders of PATH that exist inside
	Notices []string // what is left out, and why
}

// search is one look at a PATH.
type search struct {
	o       Options
	found   []string
	notices []string
	missed  int // entries that were left out beyond those that are named
}

// maxLeftOut is how many entries of PATH are named that are left out.
const maxLeftOut = 5

// leave says that an entry of PATH is left out, or a link in one.
func (t *search) leave(path, why string) {
	if len(t.notices) == maxLeftOut {
		t.missed++
		return
	}
	t.notices = append(t.notices, fmt.Sprintf("PATH: %s is left out inside: %s", path, why))
}

// add makes a root one that is shown. A root never holds the home, the project or
// Cloister's state.
func (t *search) add(root string) bool {
	if slices.Contains(t.found, root) {
		return true
	}
	if unfit(root, t.o.Home) || len(t.found) >= maxToolchains {
		return false
	}
	for _, k := range append([]string{t.o.Home, t.o.Project}, t.o.KeepOut...) {
		if k != "" && (realpath.Inside(k, root) || k != t.o.Home && k != t.o.Project && realpath.Inside(root, k)) {
			return false
		}
	}
	t.found = append(t.found, root)
	return true
}

func (t *search) mine(path string) bool {
	return slices.ContainsFunc(t.o.Own, func(dir string) bool { return realpath.Inside(path, dir) })
}

func (t *search) shown(path string) bool {
	in := func(dir string) bool { return realpath.Inside(path, dir) }
	return in(t.o.Project) || t.mine(path) || slices.ContainsFunc(System, in) || slices.ContainsFunc(t.found, in)
}

// chosen says that someone else chose where a path leads, or may write there. What
// the session itself may write shows nothing that it does not have.
func (t *search) chosen(f resolve.Found) (why string) {
	switch {
	case t.mine(f.Real):
		return ""
	case f.Link != "":
		return fmt.Sprintf("it leads to %s through the link %s, and %s", f.Real, f.Link, f.Who)
	case f.Place != "":
		return "a cloister could write " + f.Place
	}
	return ""
}

// follow shows what the links of a folder lead to, in the home.
func (t *search) follow(dir string, depth int) {
	if depth > 3 {
		return
	}
	entries, err := resolve.ReadDir(dir)
	if err != nil || len(entries) > 2000 {
		return
	}
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 {
			continue
		}
		f, err := t.o.Host.Find(filepath.Join(dir, e.Name()))
		if err != nil || t.shown(f.Real) || t.o.Home == "" || !realpath.Inside(f.Real, t.o.Home) {
			continue
		}
		if why := t.chosen(f); why != "" {
			t.leave(f.Path, why)
			continue
		}
		next := filepath.Dir(f.Real)
		root := rootOf(next, t.o.Home)
		if root == next {
			root = f.Real // no installation: the one file, not its neighbours
		}
		if t.add(root) && root != f.Real {
			t.follow(next, depth+1)
		}
	}
}

// Find finds the roots of the programs on PATH outside the system's folders. It gives
// them and the folders of PATH that will exist inside. What a payload could write, or
// lead elsewhere, shows nothing of the host.
func Find(o Options) Found {
	t := &search{o: o}
	var f Found
	seen := map[string]bool{}
	for dir := range strings.SplitSeq(o.Path, ":") {
		if !filepath.IsAbs(dir) || seen[dir] {
			continue
		}
		seen[dir] = true
		at, err := o.Host.Find(dir)
		if err != nil || !at.IsDir() {
			continue
		}
		if why := t.chosen(at); why != "" {
			t.leave(dir, why)
			continue
		}
		if !t.shown(at.Real) {
			if !t.add(rootOf(at.Real, o.Home)) {
				continue
			}
			t.follow(at.Real, 0)
		}
		if at.Real != dir && !t.shown(dir) {
			dir = at.Real
		}
		f.Dirs = append(f.Dirs, dir)
	}
	if t.missed > 0 {
		t.notices = append(t.notices, fmt.Sprintf("PATH: %d more are left out", t.missed))
	}
	if t.o.Home != "" && slices.Contains(t.found, filepath.Join(t.o.Home, ".cargo/bin")) {
		if at, err := o.Host.Find(filepath.Join(o.Home, ".rustup")); err == nil && t.chosen(at) == "" {
			t.add(at.Real)
		}
	}
	// A root below another needs no bind of its own.
	slices.Sort(t.found)
	for _, root := range t.found {
		if len(f.Roots) > 0 && realpath.Inside(root, f.Roots[len(f.Roots)-1].Path) {
			continue
		}
		fi, err := os.Lstat(root)
		if err != nil {
			continue // gone since it was found
		}
		f.Roots = append(f.Roots, Root{Path: root, File: !fi.IsDir(), Hide: secretsIn(root)})
	}
	f.Notices = t.notices
	return f
}
