package devcontainer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cloister/devcontainer"
	"cloister/devcontainer/demand"
	"cloister/devcontainer/jsonc"
	"cloister/devcontainer/services"
	"cloister/devcontainer/trust"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(dir, path string) (*devcontainer.Devcontainer, error) {
	return devcontainer.Read(devcontainer.Options{
		Project: dir, Path: path, Home: "/home/ada",
		LocalEnv: func(string) (string, bool) { return "", false },
	})
}

const plain = `{"image":"debian:12"}`

func TestDiscovery(t *testing.T) {
	for _, c := range []struct {
		name, path string
		files      []string
		want, says string
	}{
		{"own first", "", []string{".devcontainer/cloister/devcontainer.json", ".devcontainer/devcontainer.json"}, ".devcontainer/cloister/devcontainer.json", ""},
		{"the usual", "", []string{".devcontainer/devcontainer.json", ".devcontainer.json", ".devcontainer/a/devcontainer.json"}, ".devcontainer/devcontainer.json", ""},
		{"at the top", "", []string{".devcontainer.json", ".devcontainer/a/devcontainer.json"}, ".devcontainer.json", ""},
		{"one with a name", "", []string{".devcontainer/a/devcontainer.json"}, ".devcontainer/a/devcontainer.json", ""},
		{"several", "", []string{".devcontainer/a/devcontainer.json", ".devcontainer/b/devcontainer.json"}, "", "several devcontainers: .devcontainer/a/devcontainer.json, .devcontainer/b"},
		{"by its name", "b", []string{".devcontainer/a/devcontainer.json", ".devcontainer/b/devcontainer.json"}, ".devcontainer/b/devcontainer.json", ""},
		{"by its folder", ".devcontainer/b/", []string{".devcontainer/b/devcontainer.json"}, ".devcontainer/b/devcontainer.json", ""},
		{"of a part", "sub", []string{"sub/.devcontainer/devcontainer.json"}, "sub/.devcontainer/devcontainer.json", ""},
		{"none", "", []string{"README"}, "", "no devcontainer"},
		{"outside", "../x", []string{"README"}, "", "outside the project"},
		{"absolute", "/etc/devcontainer.json", []string{"README"}, "", "outside the project"},
	} {
		files := map[string]string{}
		for _, f := range c.files {
			files[f] = plain
		}
		d, err := read(tree(t, files), c.path)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || d.File != c.want || d.Kind != devcontainer.OfImage {
			t.Errorf("%s: %+v, %v", c.name, d, err)
		}
	}
}

// TestDigestNamesServices changes what compose files pull in, one thing at a time.
func TestDigestNamesServices(t *testing.T) {
	files := map[string]string{
		".devcontainer.json": `{"dockerComposeFile":["a.yml","more/b.yml"],"service":"app"}`,
		"a.yml":              "services: {app: {build: {context: img}, env_file: [.env]}}\n",
		"more/b.yml":         "services: {db: {image: x}}\nsecrets: {s: {file: secret.txt}}\n",
		"img/Dockerfile":     "FROM x\n", ".env": "A=b\n", "secret.txt": "s\n", "other": "o\n",
	}
	dir := tree(t, files)
	first, err := read(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if first.Kind != devcontainer.OfCompose || len(first.Services) != 2 {
		t.Errorf("%+v", first)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text+"\n")
		now, err := read(dir, "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if counts := name != "other"; counts == (now.Digest == first.Digest) {
			t.Errorf("%s: digest changed: %v", name, !counts)
		}
		write(t, filepath.Join(dir, name), text)
	}
}

// TestDigestNamesAllThatCounts changes one thing at a time.
func TestDigestNamesAllThatCounts(t *testing.T) {
	files := map[string]string{
		".devcontainer/devcontainer.json":           `{"build":{"dockerfile":"../Dockerfile","context":".."},"features":{"./f":{}}}`,
		"Dockerfile":                                "FROM debian:12\n",
		".dockerignore":                             "x\n",
		".devcontainer/f/devcontainer-feature.json": `{"id":"f","version":"1.0.0","privileged":true}`,
		".devcontainer/f/install.sh":                "true\n",
		".devcontainer/scripts/post.sh":             "true\n",
		".devcontainer/devcontainer-lock.json":      "{}",
		"src/main.go":                               "package main\n",
	}
	dir := tree(t, files)
	first, err := read(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := read(dir, ""); err != nil || again.Digest != first.Digest {
		t.Fatalf("not the same twice: %v", err)
	}
	for name := range files {
		path := filepath.Join(dir, name)
		write(t, path, files[name]+" ")
		now, err := read(dir, "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if counts := name != "src/main.go"; counts == (now.Digest == first.Digest) {
			t.Errorf("%s: digest changed: %v", name, !counts)
		}
		write(t, path, files[name])
	}
	if err := os.Chmod(filepath.Join(dir, ".devcontainer/f/install.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if now, err := read(dir, ""); err != nil || now.Digest == first.Digest {
		t.Errorf("a file that may be run is another: %v", err)
	}
	at := 0
	for _, f := range first.Findings {
		if f.Key == "privileged" && f.Outcome == demand.Refused && f.File == ".devcontainer/f/devcontainer-feature.json" {
			at++
		}
	}
	if at != 1 || first.Dockerfile != "Dockerfile" || first.Context != "." {
		t.Errorf("%+v", first)
	}
}

func TestHostileFiles(t *testing.T) {
	outside := tree(t, map[string]string{"devcontainer.json": plain, "Dockerfile": "FROM x\n"})
	for name, make := range map[string]func(dir string) error{
		"a link out of the project": func(dir string) error {
			return os.Symlink(outside+"/devcontainer.json", dir+"/.devcontainer.json")
		},
		"a folder that is a link": func(dir string) error { return os.Symlink(outside, dir+"/.devcontainer") },
		"a pipe":                  func(dir string) error { return unix.Mkfifo(dir+"/.devcontainer.json", 0o644) },
		"a Dockerfile outside": func(dir string) error {
			write(t, dir+"/.devcontainer.json", `{"build":{"dockerfile":"../Dockerfile"}}`)
			return nil
		},
		"an absolute Dockerfile": func(dir string) error {
			write(t, dir+"/.devcontainer.json", `{"build":{"dockerfile":"/etc/passwd"}}`)
			return nil
		},
		"a Dockerfile by a link": func(dir string) error {
			write(t, dir+"/.devcontainer.json", `{"build":{"dockerfile":"D"}}`)
			return os.Symlink(outside+"/Dockerfile", dir+"/D")
		},
		"a Dockerfile that is a pipe": func(dir string) error {
			write(t, dir+"/.devcontainer.json", `{"build":{"dockerfile":"D"}}`)
			return unix.Mkfifo(dir+"/D", 0o644)
		},
		"a context outside": func(dir string) error {
			write(t, dir+"/D", "FROM x\n")
			write(t, dir+"/.devcontainer.json", `{"build":{"dockerfile":"D","context":"../.."}}`)
			return nil
		},
		"a feature outside": func(dir string) error {
			write(t, dir+"/.devcontainer/devcontainer.json", `{"image":"x","features":{"./../../f":{}}}`)
			return nil
		},
	} {
		dir := tree(t, nil)
		if err := make(dir); err != nil {
			t.Fatal(err)
		}
		if d, err := read(dir, ""); err == nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
	// A link in the folder is known by where it leads, and nothing behind it is read.
	dir := tree(t, map[string]string{".devcontainer/devcontainer.json": plain})
	if err := os.Symlink(outside+"/Dockerfile", dir+"/.devcontainer/link"); err != nil {
		t.Fatal(err)
	}
	first, err := read(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	write(t, outside+"/Dockerfile", "FROM y\n")
	if now, err := read(dir, ""); err != nil || now.Digest != first.Digest {
		t.Errorf("what is outside counts: %v", err)
	}
}

// TestHiddenVariables: a file of variables that is hidden inside, or whose folder is, gives none.
func TestHiddenVariables(t *testing.T) {
	dir := tree(t, map[string]string{".devcontainer/devcontainer.json": `{"dockerComposeFile":"a.yml","service":"app"}`,
		".devcontainer/a.yml": "services: {app: {env_file: [a.env, ../own/b.env, c.env]}}\n",
		".devcontainer/a.env": "A=hidden\n", "own/b.env": "B=hidden\n", ".devcontainer/c.env": "C=seen\n",
	})
	d, err := read(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, hides := range []bool{true, false} {
		e, err := d.On(devcontainer.Options{
			LocalEnv: func(string) (string, bool) { return "", false },
			Hidden: func(rel string, dir bool) bool {
				return hides && (rel == ".devcontainer/a.env" || rel == "own" && dir)
			},
		}, devcontainer.Image{})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(e.Env, " ")
		if strings.Contains(text, "hidden") == hides || !strings.Contains(text, "C=seen") {
			t.Errorf("hidden %v: %q", hides, text)
		}
	}
}

// TestComposeFilesTogether gives files of which each asks for nothing, and both for a folder of
// this machine.
func TestComposeFilesTogether(t *testing.T) {
	const config = `{"dockerComposeFile":["a.yml","b.yml"],"service":"app"}`
	for _, c := range [][3]string{
		{"volumes: {type: tmpfs, source: ../../../../etc, target: /x}", "volumes: {type: volume, target: /x}", "must be a list"},
		{"volumes: [\"../../../../etc\"]", "volumes: {type: volume, target: /x}", "must be a list"},
		{"secrets: {source: a, target: x}", "secrets: {source: a}", "must be a list"},
		{"volumes: [{type: tmpfs, source: ../../../../etc, target: /x}]", "volumes: [{type: volume, target: /x}]", ""},
		{"secrets: [a]", "secrets: [../a]", "is no name of a file"},
	} {
		dir := tree(t, map[string]string{".devcontainer/devcontainer.json": config, ".devcontainer/s": "",
			".devcontainer/a.yml": "services: {app: {" + c[0] + "}}\nsecrets: {a: {file: s}, ../a: {file: s}}\n",
			".devcontainer/b.yml": "services: {app: {" + c[1] + "}}\n",
		})
		d, err := read(dir, "")
		if c[2] != "" {
			if err == nil || !strings.Contains(err.Error(), c[2]) {
				t.Errorf("%q: %v, want %q", c[:2], err, c[2])
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c[:2], err)
			continue
		}
		for _, m := range d.Own().Mounts {
			if m.Kind == services.OfVolume && m.Source != "" {
				t.Errorf("%q: a volume of the name %q", c[:2], m.Source)
			}
		}
	}
}

func TestPlacesOfErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{\n  \"image\": \"x\"\n  \"name\": 1\n}":        ".devcontainer.json:3:3: ",
		"{\n \"build\": {\"dockerfile\": \"Nope\"}\n}":   ".devcontainer.json:2:26: build.dockerfile: Nope: no such file",
		"{\n\"name\": \"x\"}":                            ".devcontainer.json:1:1: it names no image",
		"{\"image\":\"x\",\n\"features\":{\"./no\":{}}}": ".devcontainer.json:2:13: feature ./no: no such file",
	} {
		_, err := read(tree(t, map[string]string{".devcontainer.json": text}), "")
		var placed *jsonc.Error
		if !errors.As(err, &placed) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTrust(t *testing.T) {
	s := trust.Open(filepath.Join(t.TempDir(), "t"))
	holds := func(project, file, digest string) bool {
		ok, err := s.Holds(project, file, digest)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if holds("/p", "f", "") || holds("/p", "f", "sha256:a") {
		t.Error("nothing was agreed to")
	}
	if err := s.Put(trust.Agreement{Project: "/p", File: "f", Digest: "sha256:a"}); err != nil {
		t.Fatal(err)
	}
	if !holds("/p", "f", "sha256:a") || holds("/p", "f", "sha256:b") || holds("/p", "g", "sha256:a") || holds("/q", "f", "sha256:a") || holds("/p", "f", "") {
		t.Error("an agreement is for one project, file and digest")
	}
	if err := s.Forget("/p"); err != nil || holds("/p", "f", "sha256:a") {
		t.Errorf("it was forgotten: %v", err)
	}
}
