package features_test

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloister/devcontainer/features"
	"cloister/devcontainer/featurestest"
)

func TestParseRef(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for id, want := range map[string]features.Ref{
		"registry.example.com/a/b:1.2":       {Name: "registry.example.com/a/b", Version: "1.2"},
		"registry.example.com/a/b":           {Name: "registry.example.com/a/b", Version: "latest"},
		"registry.example.com:5000/b":        {Name: "registry.example.com:5000/b", Version: "latest"},
		"registry.example.com/b@" + digest:   {Name: "registry.example.com/b", Version: digest},
		"localhost:5000/b:1":                 {Name: "localhost:5000/b", Version: "1"},
		"":                                   {},
		"node":                               {},
		"node:1":                             {},
		"acme/tool/x":                        {},
		"registry.example.com/":              {},
		"registry.example.com/../b":          {},
		"registry.example.com//b":            {},
		"registry.example.com/a/B:1":         {},
		"registry.example.com/a:1\nx":        {},
		"registry.example.com/a@sha256:00":   {},
		"registry.example.com/a:1@" + digest: {},
		"user@registry.example.com/a":        {},
		"registry.example.com/a?x=y":         {},
		"-x.example.com/a":                   {},
	} {
		got, err := features.ParseRef(id)
		if got != want || (err == nil) != (want != features.Ref{}) {
			t.Errorf("%q: %+v, %v", id, got, err)
		}
	}
	ref, err := features.ParseRef("registry.example.com/team/tool:1")
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]bool{
		"registry.example.com/team/*": true, "registry.example.com/*": true, "registry.example.com/team/tool": true,
		"registry.example.com/tea/*": false, "registry.example.com/team": false, "registry.example.co/*": false,
		"*": false, "/*": false, "": false,
	} {
		if ref.Among([]string{source}) != want {
			t.Errorf("%s names %s: %v", source, ref, !want)
		}
	}
}

func TestReadLock(t *testing.T) {
	digest, other := "sha256:"+strings.Repeat("0", 64), "sha256:"+strings.Repeat("1", 64)
	entry := func(id, resolved, integrity string) string {
		return `{"features":{"` + id + `":{"version":"1","resolved":"` + resolved + `","integrity":"` + integrity + `"}},"more":1}`
	}
	text := entry("r.example.com/a:1", "r.example.com/a@"+digest, digest)
	l, err := features.ReadLock("lock", []byte(text))
	if got, ok := l.Digest("r.example.com/a:1"); err != nil || got != digest || !ok {
		t.Errorf("%v %v", l, err)
	}
	if got, ok := l.Digest("r.example.com/a:2"); ok {
		t.Errorf("another version is pinned to %s", got)
	}
	if got, ok := l.Digest("r.example.com/a@" + other); !ok || got != other {
		t.Error("a digest in a name is not what pins")
	}
	for name, bad := range map[string]string{
		"of another place":  entry("r.example.com/a:1", "r.example.com/b@"+digest, digest),
		"of two digests":    entry("r.example.com/a:1", "r.example.com/a@"+digest, other),
		"of no digest":      entry("r.example.com/a:1", "r.example.com/a@1", "1"),
		"against its name":  entry("r.example.com/a@"+other, "r.example.com/a@"+digest, digest),
		"of two readings":   `{"features":{},"features":{}}`,
		"that is no object": `[]`, "that is cut off": `{"features":{`,
	} {
		if _, err := features.ReadLock("lock", []byte(bad)); err == nil {
			t.Errorf("one %s is read", name)
		}
	}
	// Other readers know the key in one spelling alone.
	if l, err := features.ReadLock("lock", []byte(strings.Replace(text, "features", "FEATURES", 1))); err != nil || len(l) > 0 {
		t.Errorf("%v %v", l, err)
	}
	more, err := features.With([]byte(text), features.Lock{"r.example.com/c:1": {Resolved: "r.example.com/c@" + other, Integrity: other}})
	if err != nil || !strings.Contains(string(more), `"more": 1`) {
		t.Errorf("%s %v", more, err)
	}
	if l, err = features.ReadLock("lock", more); err != nil || len(l) != 2 {
		t.Errorf("%v %v", l, err)
	}
}

// TestFiles gives what a hostile registry may send, each with its digests right.
func TestFiles(t *testing.T) {
	file := tar.Header{Name: "install.sh", Mode: 0o755, Size: 4}
	with := func(more ...tar.Header) []tar.Header { return append([]tar.Header{file}, more...) }
	texts := map[string]string{"install.sh": "true", "./a/b": "true", "../b": "true", "/b": "true", "install.sh/x": "true", "a\\b": "true"}
	for name, one := range map[string]struct {
		headers []tar.Header
		want    string
	}{
		"its own files":     {with(tar.Header{Name: "./a/b", Size: 4}, tar.Header{Name: "./a/", Typeflag: tar.TypeDir}), ""},
		"a link":            {with(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), "neither a file nor a folder"},
		"another name":      {with(tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "install.sh"}), "neither a file"},
		"a device":          {with(tar.Header{Name: "d", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}), "neither a file"},
		"a pipe":            {with(tar.Header{Name: "p", Typeflag: tar.TypeFifo}), "neither a file"},
		"a folder above":    {with(tar.Header{Name: "../b", Size: 4}), "outside its folder"},
		"an absolute path":  {with(tar.Header{Name: "/b", Size: 4}), "outside its folder"},
		"a backslash":       {with(tar.Header{Name: "a\\b", Size: 4}), "outside its folder"},
		"a name twice":      {with(file), "twice"},
		"a file and folder": {with(tar.Header{Name: "install.sh/x", Size: 4}), "a file and a folder"},
	} {
		p, err := featurestest.PackAs(one.headers, texts)
		if err != nil {
			t.Fatal(err)
		}
		files, err := p.Files(features.Digest(p.Manifest))
		if one.want == "" && (err != nil || len(files) != 2 || files[0].Name != "a/b" || !files[1].Executable) {
			t.Errorf("%s: %v %v", name, files, err)
		}
		if one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	large := tar.Header{Name: "big", Size: 65 << 20}
	p, err := featurestest.PackAs([]tar.Header{large}, map[string]string{"big": strings.Repeat("x", 65<<20)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Files(features.Digest(p.Manifest)); err == nil || !strings.Contains(err.Error(), "are taken at most") {
		t.Errorf("a large one: %v", err)
	}
}

func TestStore(t *testing.T) {
	p, err := featurestest.Pack(map[string]string{"install.sh": "true"})
	if err != nil {
		t.Fatal(err)
	}
	digest := features.Digest(p.Manifest)
	dir := filepath.Join(t.TempDir(), "features")
	s := features.OpenStore(dir)
	if _, err := s.Get(digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is kept: %v", err)
	}
	if err := s.Put(digest, p); err != nil {
		t.Fatal(err)
	}
	if files, err := s.Get(digest); err != nil || len(files) != 1 {
		t.Errorf("%v %v", files, err)
	}
	other, err := featurestest.Pack(map[string]string{"install.sh": "evil"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(digest, other); err == nil {
		t.Error("another one is kept by this digest")
	}
	if err := s.Put(digest, features.Packed{Manifest: p.Manifest, Layer: other.Layer}); err == nil {
		t.Error("another archive is kept")
	}
	if err := s.Put("sha256:../../x", p); err == nil {
		t.Error("a path is a digest")
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Fatalf("%v %v", names, err)
	}
	name := filepath.Join(dir, names[0].Name())
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(text), `"layer":"`, `"layer":"AAAA`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(digest); err == nil {
		t.Error("bytes that were changed on disk are taken")
	}
	if _, err := (features.Store{}).Get(digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no store: %v", err)
	}
}
