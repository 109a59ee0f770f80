package workspace

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"cloister/sandbox"
)

// Submodule is one that a working tree names and its repository does not know yet.
type Submodule struct {
	Name   string
	URL    string
	Update string // how it is brought up to date; empty for git's own way
}

// Unregistered are the submodules of a working tree that nobody has initialised.
// Git would write them to the repository's configuration, which is read-only
// inside; where another configuration names them already, it does not (init_submodule
// of git's submodule--helper). What it names is the repository's own word, and for
// the inside alone.
func Unregistered(root sandbox.HostPath, g *Git) []Submodule {
	file := filepath.Join(string(root), ".gitmodules")
	if fi, err := os.Lstat(file); g == nil || err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	settings := readGitConfig(filepath.Join(g.Common, "config"))
	known := map[string]bool{}
	for _, e := range settings {
		known[e.subsection] = known[e.subsection] || e.section == "submodule" && e.key == "url"
	}
	var out []Submodule
	for _, e := range readGitConfig(file) {
		if e.section != "submodule" || e.subsection == "" || known[e.subsection] {
			continue
		}
		i := slices.IndexFunc(out, func(s Submodule) bool { return s.Name == e.subsection })
		if i < 0 {
			i = len(out)
			out = append(out, Submodule{Name: e.subsection})
		}
		switch {
		case e.key == "url":
			out[i].URL = e.value
		case e.key == "update" && slices.Contains([]string{"checkout", "rebase", "merge", "none"}, e.value):
			out[i].Update = e.value
		}
	}
	// What cannot be written as one line would make the whole file unreadable.
	out = slices.DeleteFunc(out, func(s Submodule) bool {
		return s.URL == "" || strings.ContainsFunc(s.Name+s.URL, unicode.IsControl)
	})
	if slices.ContainsFunc(out, func(s Submodule) bool { return relative(s.URL) }) {
		base := cmp.Or(originOf(settings, g.Branch()), string(root))
		for i := range out {
			out[i].URL = against(base, out[i].URL)
		}
	}
	return out
}

func relative(url string) bool { return strings.HasPrefix(url, "./") || strings.HasPrefix(url, "../") }

// originOf is where the remote of a branch lies, or origin.
func originOf(settings []entry, branch string) string {
	remote, url := "origin", ""
	for _, e := range settings {
		if e.section == "branch" && e.subsection == branch && e.key == "remote" {
			remote = e.value
		}
	}
	for _, e := range settings {
		if e.section == "remote" && e.subsection == remote && e.key == "url" {
			url = e.value
		}
	}
	return url
}

// against resolves a relative URL as git does (relative_url of its remote.c): each
// ../ takes one part off, the last at a colon too.
func against(base, url string) string {
	if !relative(url) {
		return url
	}
	base = strings.TrimRight(base, "/")
	sep := "/"
	for relative(url) {
		if rest, ok := strings.CutPrefix(url, "./"); ok {
			url = rest
			continue
		}
		url = strings.TrimPrefix(url, "../")
		if i := strings.LastIndexByte(base, '/'); i >= 0 {
			base = base[:i]
		} else if i := strings.LastIndexByte(base, ':'); i >= 0 {
			base, sep = base[:i], ":"
		}
	}
	return strings.TrimRight(base+sep+url, "/")
}

// unplace shows a submodule's settings without the place of its working tree. Git
// writes that anew whenever it updates a submodule whose settings have it
// (ensure_core_worktree of its submodule--helper), and ends where it cannot. It
// finds the working tree without: by the pointer that led to the git folder.
//
// What is shown is as the settings were at the start. A file that another cloister
// of the project exchanges meanwhile gives nothing away: it lies below the same
// top, and has to be settings of git that name a place.
func (t *tree) unplace(rel string) {
	if name := filepath.Base(rel); name != "config" && name != "config.worktree" {
		return
	}
	full := filepath.Join(t.root, rel)
	i := slices.IndexFunc(t.v.Protect, func(p sandbox.Protect) bool { return string(p.Target) == full && p.File && !p.Empty })
	if fi, err := os.Lstat(full); i < 0 || err != nil || !fi.Mode().IsRegular() {
		return
	}
	text, err := Look(t.root, rel)
	if err != nil {
		return // too much, or not to be read: git inside finds what the host has
	}
	if shown, ok := withoutPlace(string(text)); ok {
		f := sandbox.File{Path: sandbox.GuestPath(fmt.Sprintf("/.cloister/git/%d", len(t.v.Files))), Data: []byte(shown), Mode: 0o444}
		t.v.Files, t.v.Protect[i].Instead = append(t.v.Files, f), f.Path
	}
}

// withoutPlace is a text of settings without core.worktree; ok tells that it had
// one.
func withoutPlace(text string) (out string, ok bool) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var b strings.Builder
	end := 0
	eachSetting(text, func(e entry, from, to int) {
		if e.section == "core" && e.subsection == "" && e.key == "worktree" {
			b.WriteString(text[end:from] + "\n")
			end, ok = to, true
		}
	})
	return b.String() + text[end:], ok
}
