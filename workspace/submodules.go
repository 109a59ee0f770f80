package workspace

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"cloister/sandbox"
	"cloister/workspace/gitdir"
)

// Submodule is one that a working tree names and its repository does not know yet.
type Submodule struct {
	Name   string
	URL    string
	Update string // how it is brought up to date; empty for git's own way
}

// Unregistered are the submodules of a working tree that no one has initialised.
// Git would write them to the repository's configuration, which is read-only
// inside; where another configuration names them already, it does not (init_submodule
// of git's submodule--helper). What it names is the repository's own word, and for
// the inside alone.
func Unregistered(root sandbox.HostPath, g *Git) []Submodule {
	file := filepath.Join(string(root), ".gitmodules")
	if fi, err := os.Lstat(file); g == nil || err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	settings := gitdir.Read(filepath.Join(g.Common, "config"))
	known := map[string]bool{}
	for _, e := range settings {
		known[e.Subsection] = known[e.Subsection] || e.Section == "submodule" && e.Key == "url"
	}
	var out []Submodule
	for _, e := range gitdir.Read(file) {
		if e.Section != "submodule" || e.Subsection == "" || known[e.Subsection] {
			continue
		}
		i := slices.IndexFunc(out, func(s Submodule) bool { return s.Name == e.Subsection })
		if i < 0 {
			i = len(out)
			out = append(out, Submodule{Name: e.Subsection})
		}
		switch {
		case e.Key == "url":
			out[i].URL = e.Value
		case e.Key == "update" && slices.Contains([]string{"checkout", "rebase", "merge", "none"}, e.Value):
			out[i].Update = e.Value
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
func originOf(settings []gitdir.Entry, branch string) string {
	remote, url := "origin", ""
	for _, e := range settings {
		if e.Section == "branch" && e.Subsection == branch && e.Key == "remote" {
			remote = e.Value
		}
	}
	for _, e := range settings {
		if e.Section == "remote" && e.Subsection == remote && e.Key == "url" {
			url = e.Value
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
