//go:build linux

package servetest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// programs writes an image with a few of this machine's programs as an archive, and gives
// the archive.
func programs(t *testing.T, dir, says string) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	put := func(name string, text []byte, mode int64) {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: mode}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	had := map[string]bool{}
	host := func(path string) {
		if had[path] {
			return
		}
		had[path] = true
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		put(strings.TrimPrefix(path, "/"), text, 0o755)
	}
	for _, p := range []string{"/bin/bash", "/bin/cat", "/usr/bin/id", "/usr/bin/getent", "/usr/bin/timeout"} {
		host(p)
		out, err := exec.CommandContext(t.Context(), "ldd", p).Output()
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/") {
				host(word)
			}
		}
	}
	put("etc/image-says", []byte(says), 0o644)
	put("etc/passwd", []byte("root:x:0:0::/root:/bin/sh\n"), 0o644)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err == nil {
		image, err = mutate.ConfigFile(image, &v1.ConfigFile{
			Architecture: goarch(t), OS: "linux", RootFS: v1.RootFS{Type: "layers", DiffIDs: diffs(t, image)},
		})
	}
	tag, terr := name.NewTag("example.test/env:1")
	file := filepath.Join(dir, says+".tar")
	if err == nil && terr == nil {
		err = tarball.WriteToFile(file, tag, image)
	}
	if err != nil || terr != nil {
		t.Fatal(err, terr)
	}
	return file
}

func goarch(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "uname", "-m").Output()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[strings.TrimSpace(string(out))]
}

func diffs(t *testing.T, image v1.Image) []v1.Hash {
	t.Helper()
	f, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return f.RootFS.DiffIDs
}

// TestTemplates has sandboxes of an image: of a template that the operator made, with what
// its statements forbid, and of one that a request made of the image's digest.
func TestTemplates(t *testing.T) {
	t.Parallel()
	s := newServer(t, "acme", "other")
	s.configure("acme", "  allow:\n    - domain: a.example\n    - domain: b.example\n")
	forbid := filepath.Join(s.dir, "forbid.cedar")
	for text, good := range map[string]bool{
		`permit (principal, action == Action::"NetworkConnect", resource in Host::"c.example");`: false,
		`forbid (principal, action == Action::"NetworkConnect", resource in Host::"b.example");`: true,
	} {
		if err := os.WriteFile(forbid, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if !good {
			out, err := s.command("serve", "template", "add", "acme", "env", "./none.tar", "--forbid", forbid).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "want statements that forbid") {
				t.Errorf("a template that permits: %v: %s", err, out)
			}
		}
	}
	if err := os.WriteFile(forbid, []byte(`forbid (principal, action == Action::"NetworkConnect", resource in Host::"b.example");`), 0o600); err != nil {
		t.Fatal(err)
	}
	id, digest, _ := strings.Cut(strings.TrimSpace(s.do("serve", "template", "add", "acme", "env", programs(t, s.dir, "first"), "--forbid", forbid)), " ")
	b := s.create("acme", `{"templateID":"env","timeout":120,"envVars":{"A":"b"}}`)
	if got := b.output(`cat /etc/image-says; echo " $A"; id -un; pwd; echo kept > f`); got != "first b\nuser\n/home/user\n" {
		t.Errorf("inside: %q", got)
	}
	if a := b.write("up", "loaded"); a.status != 200 || b.output("cat up") != "loaded" {
		t.Errorf("upload: %d %s", a.status, a.body)
	}
	if got := b.open(); got != "a" {
		t.Errorf("open: %q", got)
	}
	if a := b.setNetwork(`{"allowOut":["b.example"]}`); a.status != 204 || b.open() != "a" {
		t.Errorf("a request lifts what the template forbids: %d %q", a.status, b.open())
	}
	// Its copies and its next session are of the image too.
	if a := s.api("acme", "POST", "/sandboxes/"+b.id+"/pause", `{"memory":false}`); a.status != 204 {
		t.Fatalf("pause: %d %s", a.status, a.body)
	}
	if a := s.api("acme", "POST", "/v2/sandboxes/"+b.id+"/connect", `{"timeout":120}`); a.status != 201 {
		t.Fatalf("resume: %d %s", a.status, a.body)
	}
	snap := s.api("acme", "POST", "/sandboxes/"+b.id+"/snapshots", `{"name":"s1"}`)
	c := s.create("acme", `{"templateID":"`+snap.field(t, "snapshotID")+`","timeout":120}`)
	for what, one := range map[string]sandbox{"resumed": b, "of a snapshot": c} {
		if got := one.output("cat /etc/image-says f; echo"); got != "firstkept\n\n" || one.open() != "a" {
			t.Errorf("%s: %q %q", what, got, one.open())
		}
	}

	// What the SDK asks for: a template of an image by its digest.
	made := s.api("acme", "POST", "/v3/templates", `{"name":"mine","cpuCount":2,"memoryMB":1024}`)
	if made.status != 202 {
		t.Fatalf("make: %d %s", made.status, made.body)
	}
	path := "/templates/" + made.field(t, "templateID") + "/builds/" + made.field(t, "buildID")
	if a := s.api("acme", "POST", "/v2/sandboxes", `{"templateID":"mine"}`); a.status != 409 {
		t.Errorf("a sandbox before the build: %d %s", a.status, a.body)
	}
	zero := "sha256:" + strings.Repeat("0", 64)
	for body, want := range map[string]int{
		`{"fromImage":"debian:12"}`: 400, `{"fromImage":"` + s.dir + `/first.tar"}`: 400, `{"fromImage":"sha256:` + digest[7:20] + `"}`: 400,
		`{"fromImage":"x@` + zero + `"}`:                                         404,
		`{"fromImage":"` + digest + `","steps":[{"type":"RUN","args":["x"]}]}`:   400,
		`{"fromImage":"` + digest + `","startCmd":"x"}`:                          400,
		`{"fromTemplate":"base"}`:                                                400,
		`{"fromImage":"` + digest + `","fromImageRegistry":{"type":"registry"}}`: 400,
		`{"fromImage":"example.test/env@` + digest + `"}`:                        202,
	} {
		if a := s.api("acme", "POST", "/v2"+path, body); a.status != want {
			t.Errorf("%s: %d %s, want %d", body, a.status, a.body, want)
		}
	}
	if a := s.api("acme", "GET", path+"/status", ""); a.field(t, "status") != "ready" {
		t.Errorf("status: %d %s", a.status, a.body)
	}
	if got := s.create("acme", `{"templateID":"mine","timeout":60}`); got.output("cat /etc/image-says") != "first" || got.open() != "a b" {
		t.Errorf("of the request's own template: %q", got.open())
	}
	for _, route := range []string{"/templates", "/templates/mine", "/templates/aliases/mine"} {
		if a := s.api("acme", "GET", route, ""); a.status != 200 || !strings.Contains(a.body, made.field(t, "templateID")) {
			t.Errorf("%s: %d %s", route, a.status, a.body)
		}
	}
	for _, tt := range []struct{ method, path, body string }{
		{"POST", "/v3/templates", `{"name":"env"}`}, {"DELETE", "/templates/env", ""}, {"DELETE", "/templates/" + id, ""},
	} {
		if a := s.api("acme", tt.method, tt.path, tt.body); a.status != 403 {
			t.Errorf("a request changes the operator's: %s %s: %d %s", tt.method, tt.path, a.status, a.body)
		}
	}

	// Another tenant has none of it, and answers for it are those for what never was.
	never := "t" + strings.Repeat("0", 19)
	for _, of := range []string{"env", "mine", id, digest} {
		for _, route := range []struct{ method, path, body string }{
			{"GET", "/templates/THIS", ""}, {"DELETE", "/templates/THIS", ""}, {"GET", "/templates/aliases/THIS", ""},
			{"POST", "/v2/templates/THIS/builds/x", `{"fromImage":"` + zero + `"}`}, {"GET", "/templates/THIS/builds/x/status", ""},
			{"POST", "/v2/sandboxes", `{"templateID":"THIS"}`},
		} {
			theirs := s.api("other", route.method, strings.ReplaceAll(route.path, "THIS", of), strings.ReplaceAll(route.body, "THIS", of))
			none := s.api("other", route.method, strings.ReplaceAll(route.path, "THIS", never), strings.ReplaceAll(route.body, "THIS", never))
			if theirs.status != 404 || strings.ReplaceAll(theirs.body, of[:min(len(of), 64)], never) != none.body {
				t.Errorf("%s %s of another: %d %s, want %s", route.method, of, theirs.status, theirs.body, none.body)
			}
		}
	}
	theirs := s.api("other", "POST", "/v3/templates", `{"name":"theirs"}`)
	if a := s.api("other", "POST", fmt.Sprintf("/v2/templates/%s/builds/%s", theirs.field(t, "templateID"), theirs.field(t, "buildID")),
		`{"fromImage":"`+digest+`"}`); a.status != 404 {
		t.Errorf("another's image: %d %s", a.status, a.body)
	}
	if a := s.api("acme", "DELETE", "/templates/mine", ""); a.status != 204 {
		t.Errorf("remove: %d %s", a.status, a.body)
	}
	if n := strings.Count(s.record("acme"), "tenant.template "); n != 4 {
		t.Errorf("%d records about templates, want 4: added, made, built, removed", n)
	}
}
