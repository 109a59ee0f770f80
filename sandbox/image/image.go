// Package image keeps root file systems of OCI images, unpacked, without an
// engine.
//
// An image comes from a registry, an OCI layout or an archive, and lies once in
// the store under the digest of its configuration, which names every byte of its
// layers. The promise: a layer is compared with that digest before its files
// count; nothing that a layer says reaches outside the folder that it is unpacked
// to; devices, pipes and set-id bits are left out; a root is whole or absent, and
// never changed afterwards. What an image says about how to be run (entry point,
// volumes, user, variables other than PATH) is not obeyed.
//
// It shows nothing to a cloister: a driver does, by the Root of a Spec.
// Most readers want [Store.Get].
package image

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Image is one root file system of the store.
type Image struct {
	// ID is the digest of the image's configuration, sha256:HEX: the same bytes
	// have the same, whatever their name and wherever they came from.
	ID string `json:"id"`
	// Digest is that of the manifest, by which registries pin; empty for an
	// archive without one.
	Digest  string    `json:"digest"`
	Names   []string  `json:"names"`
	Source  string    `json:"source"` // what was typed when it was fetched
	OS      string    `json:"os"`
	Arch    string    `json:"arch"`
	Size    int64     `json:"size"`  // bytes of its files
	Files   int64     `json:"files"` // entries of its layers
	LeftOut int64     `json:"left_out"`
	Created time.Time `json:"created_at"`
	Stored  time.Time `json:"stored_at"`
	// Path are the folders of the image's PATH.
	Path []string `json:"path"`
	// Env are its variables, and Devcontainer is its label devcontainer.metadata: only
	// a devcontainer is given them.
	Env          []string `json:"env,omitempty"`
	Devcontainer string   `json:"devcontainer,omitempty"`
	// Run is how it says that it is run: only a service beside an agent is, so.
	Run *Run `json:"run,omitempty"`
	// Seen are the local archives and layouts that this image was read from, so
	// that the same file is not read again.
	Seen []Seen `json:"seen,omitempty"`
}

// Run is what an image says about how it is run.
type Run struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"`
	Dir        string   `json:"dir,omitempty"`
	Volumes    []string `json:"volumes,omitempty"`
	Ports      []uint16 `json:"ports,omitempty"` // of TCP
	Health     *Health  `json:"health,omitempty"`
}

// Health is the image's own check that it can be used.
type Health struct {
	Test       []string      `json:"test,omitempty"`
	Interval   time.Duration `json:"interval,omitempty"`
	Timeout    time.Duration `json:"timeout,omitempty"`
	StartDelay time.Duration `json:"start_delay,omitempty"`
	Retries    int           `json:"retries,omitempty"`
}

// runOf takes it from an image's configuration.
func runOf(c v1.Config) *Run {
	r := &Run{Entrypoint: c.Entrypoint, Command: c.Cmd, Dir: c.WorkingDir}
	r.Volumes = slices.Sorted(maps.Keys(c.Volumes))
	for _, text := range slices.Sorted(maps.Keys(c.ExposedPorts)) {
		number, protocol, _ := strings.Cut(text, "/")
		if n, err := strconv.ParseUint(number, 10, 16); err == nil && n > 0 && protocol != "udp" {
			r.Ports = append(r.Ports, uint16(n))
		}
	}
	if h := c.Healthcheck; h != nil {
		r.Health = &Health{h.Test, h.Interval, h.Timeout, h.StartPeriod, h.Retries}
	}
	return r
}

// Seen is a local archive or layout as it was when it was read.
type Seen struct {
	Path  string    `json:"path"`
	Want  string    `json:"want,omitempty"` // the tag or digest in it
	Size  int64     `json:"size"`
	Mtime time.Time `json:"mtime"`
}

// Short is the ID as lists show it.
func (i Image) Short() string {
	hex := strings.TrimPrefix(i.ID, "sha256:")
	return hex[:min(12, len(hex))]
}

// ErrNotStored says that the store has no such image.
var ErrNotStored = errors.New("there is no such image here")

// Malformed says that a text is no reference to an image.
type Malformed struct{ Text string }

func (e *Malformed) Error() string { return fmt.Sprintf("%q is no name of an image", e.Text) }

// Hints are the words of what to do.
func (*Malformed) Hints() []string {
	return []string{"names are lower-case, such as debian:12 or ghcr.io/team/env@sha256:…; a file or folder is ./NAME " +
		"or its whole path"}
}

// Check refuses a text that can be no reference.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// kind says where an image comes from.
type kind uint8

const (
	registry kind = iota
	layoutDir
	archive
	stored // by its ID
)

// source is a reference that was typed, understood.
type source struct {
	kind kind
	text string         // as typed
	path string         // of a layout or archive
	want string         // the tag or digest inside it; empty: the only one
	ref  name.Reference // of a registry
	id   string         // hexadecimal digits of an ID, or its beginning
}

// prefixes are the words by which skopeo and podman name local images.
var prefixes = []string{"oci:", "oci-archive:", "docker-archive:"}

// parse understands a reference: a path is one that begins like a path or has
// one of the prefixes; the rest are names, IDs or the beginnings of IDs.
func parse(text string) (source, error) {
	s := source{text: text}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return s, &Malformed{text}
	}
	local := strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") ||
		text == "." || text == ".."
	rest := text
	for _, p := range prefixes {
		if after, ok := strings.CutPrefix(text, p); ok && after != "" {
			rest, local = after, true
		}
	}
	if local {
		s.kind, s.path = archive, rest
		return s, nil
	}
	hex, digest := strings.CutPrefix(text, "sha256:")
	if isHex(hex) && (digest || len(hex) >= 12) && len(hex) <= 64 {
		s.kind, s.id = stored, hex
		return s, nil
	}
	ref, err := name.ParseReference(text)
	if err != nil {
		return s, &Malformed{text}
	}
	s.ref = ref
	return s, nil
}

// IsLocal reports whether a text names an archive or a layout by its path.
func IsLocal(text string) bool {
	s, err := parse(text)
	return err == nil && s.kind == archive
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }

// within splits PATH, PATH:TAG or PATH@DIGEST, given what exists.
func (s *source) within(exists func(string) bool) {
	if exists(s.path) {
		return
	}
	if p, digest, ok := strings.Cut(s.path, "@"); ok && exists(p) {
		s.path, s.want = p, digest
		return
	}
	if i := strings.LastIndexByte(s.path, ':'); i > 0 && exists(s.path[:i]) {
		s.path, s.want = s.path[:i], s.path[i+1:]
	}
}

// canonical is the full spelling of a name: what the person typed may lack the
// registry and the tag.
func canonical(ref name.Reference) string { return ref.Name() }

// Familiar is a name as docker shows it.
func Familiar(full string) string {
	short := strings.TrimPrefix(full, name.DefaultRegistry+"/")
	if short != full {
		short = strings.TrimPrefix(short, "library/")
	}
	return short
}

// pathOf gives the folders of PATH among an image's variables that are absolute
// and clean.
func pathOf(env []string) []string {
	var out []string
	for _, e := range env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		out = nil
		for dir := range strings.SplitSeq(list, ":") {
			if path.IsAbs(dir) && path.Clean(dir) == dir {
				out = append(out, dir)
			}
		}
	}
	return out
}
