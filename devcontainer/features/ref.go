package features

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// Ref names a feature of a registry.
type Ref struct {
	// Name is the registry with the path, without a version.
	Name string
	// Version is a tag or a digest (sha256:…).
	Version string
}

var (
	registryName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^(localhost|[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+)(:[0-9]{1,5})?$`)
	})
	pathName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*$`)
	})
	tagName    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`) })
	digestName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })
)

// ParseRef reads the name of a feature of a registry, as a devcontainer.json writes it.
func ParseRef(id string) (Ref, error) {
	name, digest, pinned := strings.Cut(id, "@")
	r := Ref{Name: name, Version: digest}
	if !pinned {
		r.Version = "latest"
		if base := path.Base(name); strings.Contains(base, ":") && strings.Contains(name, "/") {
			at := strings.LastIndex(name, ":")
			r.Name, r.Version = name[:at], name[at+1:]
		}
	}
	registry, rest, _ := strings.Cut(r.Name, "/")
	switch {
	case !registryName().MatchString(registry) || !pathName().MatchString(rest):
		return Ref{}, fmt.Errorf("%q is no feature of a registry: it is written REGISTRY/PATH:VERSION, in lower case", id)
	case pinned && !digestName().MatchString(digest), !pinned && !tagName().MatchString(r.Version):
		return Ref{}, fmt.Errorf("the version of the feature %q is none", id)
	}
	return r, nil
}

// Registry is the host that the feature is fetched from, with its port where one is named.
func (r Ref) Registry() string {
	host, _, _ := strings.Cut(r.Name, "/")
	return host
}

// Source is the folder of the registry that the feature lies in.
func (r Ref) Source() string { return path.Dir(r.Name) }

// Pinned reports whether the version is a digest.
func (r Ref) Pinned() bool { return digestName().MatchString(r.Version) }

// At is the reference by a digest.
func (r Ref) At(digest string) string { return r.Name + "@" + digest }

func (r Ref) String() string {
	if r.Pinned() {
		return r.At(r.Version)
	}
	return r.Name + ":" + r.Version
}

// Among reports whether a list of sources names the feature: a source is a feature's name,
// or the beginning of names, up to a slash, with * after it.
func (r Ref) Among(sources []string) bool {
	for _, s := range sources {
		if dir, all := strings.CutSuffix(s, "/*"); all && strings.HasPrefix(r.Name, dir+"/") || s == r.Name {
			return true
		}
	}
	return false
}

// bare is the name of a feature without its version.
func bare(id string) string {
	if r, err := ParseRef(id); err == nil {
		return r.Name
	}
	return id
}
