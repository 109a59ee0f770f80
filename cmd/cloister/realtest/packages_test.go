package realtest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tarball packs files below a folder.
func tarball(t *testing.T, top string, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := int64(0o644)
		if strings.HasPrefix(files[name], "#!") {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Name: top + "/" + name, Mode: mode, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// static serves what it holds and remembers what was asked.
type static struct {
	types map[string]string
	files map[string][]byte
}

func (s *static) add(path, kind string, body []byte) {
	if s.files == nil {
		s.files, s.types = map[string][]byte{}, map[string]string{}
	}
	s.files[path], s.types[path] = body, kind
}

func (s *static) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.ReplaceAll(r.URL.EscapedPath(), "%2F", "%2f") // the same (RFC 3986 6.2.2.1)
	body, ok := s.files[path]
	if !ok {
		http.Error(w, `{"error":"not found"}`, http.StatusNotFound)
		return
	}
	w.Header().Set("content-type", s.types[path])
	_, _ = w.Write(body)
}

const npmHost = "npm.example.com"

// npmPackage publishes one version of a package.
func npmPackage(t *testing.T, s *static, name, version string, manifest map[string]any, files map[string]string) {
	t.Helper()
	manifest["name"], manifest["version"] = name, version
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	files["package.json"] = string(text)
	ball := tarball(t, "package", files)
	sum := sha512.Sum512(ball)
	path := "/" + name + "/-/" + filepath.Base(name) + "-" + version + ".tgz"
	manifest["dist"] = map[string]any{
		"tarball": "https://" + npmHost + path, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
	}
	doc, err := json.Marshal(map[string]any{
		"name": name, "dist-tags": map[string]any{"latest": version}, "versions": map[string]any{version: manifest},
		"time": map[string]any{version: "2024-01-02T03:04:05.000Z"}, // yarn trusts nothing that is newer than a day
	})
	if err != nil {
		t.Fatal(err)
	}
	s.add(path, "application/octet-stream", ball)
	s.add("/"+strings.ReplaceAll(name, "/", "%2f"), "application/json", doc)
}

// npmRegistry holds a tree of packages: a scoped one, a version that is not
// exact, a program, and a script that runs on installing.
func npmRegistry(t *testing.T) *static {
	t.Helper()
	s := &static{}
	npmPackage(t, s, "shout", "1.4.2", map[string]any{
		"dependencies": map[string]any{"@words/upper": "^2.0.0", "exclaim": "~1.0.1"}, "bin": map[string]any{"shout": "cli.js"},
	}, map[string]string{
		"index.js": "module.exports = s => require('exclaim')(require('@words/upper')(s))\n",
		"cli.js":   "#!/usr/bin/env node\nconsole.log(require('./index.js')(process.argv[2]))\n",
	})
	npmPackage(t, s, "@words/upper", "2.3.0", map[string]any{}, map[string]string{"index.js": "module.exports = s => s.toUpperCase()\n"})
	npmPackage(t, s, "exclaim", "1.0.7", map[string]any{
		"scripts": map[string]any{"install": "node mark.js"},
	}, map[string]string{"index.js": "module.exports = s => s + require('./mark.json')\n", "mark.js": "require('fs').writeFileSync('mark.json', JSON.stringify('!'))\n"})
	return s
}

const shoutManifest = `{"name":"app","version":"1.0.0","license":"MIT","dependencies":{"shout":"^1.0.0"},"scripts":{"shout":"shout hello"}}` + "\n"

func TestNpmInstall(t *testing.T) {
	w := newWorld(t)
	need(t, "node", "npm")
	w.net.handle(npmHost, npmRegistry(t))
	w.write(w.project, "package.json", shoutManifest)
	w.args = []string{"-e", "npm_config_registry=https://" + npmHost + "/"}
	res := w.script(`
npm install --foreground-scripts
npm run --silent shout
rm -rf node_modules && npm ci --silent && npm ls --all && npx shout again
`)
	for _, want := range []string{"added 3 packages", "HELLO!", "AGAIN!", "shout@1.4.2", "@words/upper@2.3.0", "exclaim@1.0.7"} {
		if !strings.Contains(res.stdout, want) {
			t.Errorf("npm said %q, without %q", res.stdout, want)
		}
	}
	if strings.Contains(res.stderr, ".npmrc") {
		t.Errorf("npm complained of the .npmrc that is not there: %s", res.stderr)
	}
	if got := w.host("node", "-p", "require('shout')('outside')"); got != "OUTSIDE!\n" {
		t.Errorf("outside: %q", got)
	}
}

// TestYarn is two package managers that read a .npmrc or .yarnrc.yml which is
// only held, not there.
func TestYarn(t *testing.T) {
	for _, c := range []struct{ name, program, install, run string }{
		{"classic", "node_modules/yarn/bin/yarn.js", "install --no-progress --non-interactive", "--silent shout"},
		{"berry", "berry/lib/node_modules/@yarnpkg/cli-dist/bin/yarn.js", "install", "shout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			need(t, "node", "node")
			prefix := w.agent("yarn")
			w.net.handle(npmHost, npmRegistry(t))
			w.write(w.project, "package.json", shoutManifest)
			w.write(w.project, "yarn.lock", "")
			w.args = []string{
				"-e", "YARN_REGISTRY=https://" + npmHost, "-e", "YARN_NPM_REGISTRY_SERVER=https://" + npmHost,
				"-e", "YARN_NODE_LINKER=node-modules", "-e", "YARN_ENABLE_TELEMETRY=0", "-e", "YARN_ENABLE_HARDENED_MODE=0", "-e", "YARN_ENABLE_SCRIPTS=1",
			}
			yarn := "node " + filepath.Join(prefix, "lib", c.program) + " "
			res := w.script(yarn + c.install + "; " + yarn + c.run)
			if !strings.Contains(res.stdout, "HELLO!") {
				t.Errorf("yarn said %q, without HELLO!; stderr: %s", res.stdout, res.stderr)
			}
		})
	}
}

const goHost = "goproxy.example.com"

// goModule publishes one version of a module.
func goModule(t *testing.T, s *static, path, version string, files map[string]string) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := z.Create(path + "@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	base := "/" + path + "/@v/"
	info := fmt.Appendf(nil, `{"Version":%q,"Time":%q}`, version, time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC).Format(time.RFC3339))
	s.add(base+"list", "text/plain", []byte(version+"\n"))
	s.add("/"+path+"/@latest", "application/json", info)
	s.add(base+version+".info", "application/json", info)
	s.add(base+version+".mod", "text/plain", []byte(files["go.mod"]))
	s.add(base+version+".zip", "application/zip", b.Bytes())
}

func TestGoBuild(t *testing.T) {
	w := newWorld(t)
	goProgram := need(t, "go", "go")
	w.env["PATH"] = filepath.Dir(goProgram) + ":" + w.env["PATH"]
	s := &static{}
	goModule(t, s, "example.org/words", "v0.3.1", map[string]string{
		"go.mod": "module example.org/words\n\ngo 1.21\n", "words.go": "package words\n\nconst Hello = \"hello\"\n",
	})
	goModule(t, s, "example.org/greet", "v1.2.0", map[string]string{
		"go.mod":   "module example.org/greet\n\ngo 1.21\n\nrequire example.org/words v0.3.1\n",
		"greet.go": "package greet\n\nimport \"example.org/words\"\n\nfunc To(name string) string { return words.Hello + \", \" + name }\n",
	})
	w.net.handle(goHost, s)
	w.write(w.project, "go.mod", "module example.org/app\n\ngo 1.21\n")
	w.write(w.project, "main.go", "package main\n\nimport \"example.org/greet\"\n\nfunc main() { println(greet.To(\"cloister\")) }\n")
	w.args = []string{"-e", "GOPROXY=https://" + goHost, "-e", "GONOSUMDB=example.org", "-e", "GOTOOLCHAIN=local", "-e", "CGO_ENABLED=0"}
	res := w.script("go mod tidy && go build -o app . && ./app")
	if !strings.Contains(res.stderr, "hello, cloister") {
		t.Errorf("the program said %q", res.stderr)
	}
	for file, want := range map[string]string{"go.mod": "require example.org/greet v1.2.0", "go.sum": "example.org/words v0.3.1 h1:"} {
		if got := read(t, filepath.Join(w.project, file)); !strings.Contains(got, want) {
			t.Errorf("%s is %q, without %q", file, got, want)
		}
	}
}

const pyHost = "pypi.example.com"

// wheel packs a pure Python package as PEP 427 says.
func wheel(t *testing.T, name, version string, requires []string, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	info := name + "-" + version + ".dist-info/"
	meta := "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"
	for _, r := range requires {
		meta += "Requires-Dist: " + r + "\n"
	}
	files[info+"METADATA"] = meta
	files[info+"WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
	record := ""
	for _, f := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256([]byte(files[f]))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", f, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[f]))
	}
	files[info+"RECORD"] = record + info + "RECORD,,\n"
	for _, f := range slices.Sorted(maps.Keys(files)) {
		entry, err := z.Create(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write([]byte(files[f])); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pyIndex is a PEP 503 index of two packages.
func pyIndex(t *testing.T) *static {
	t.Helper()
	s := &static{}
	for _, p := range []struct {
		name, version string
		requires      []string
		source        string
	}{
		{"shouter", "1.1.0", []string{"upperer>=2"}, "import upperer\ndef shout(s): return upperer.upper(s) + '!'\n"},
		{"upperer", "2.0.0", nil, "def upper(s): return s.upper()\n"},
	} {
		file := p.name + "-" + p.version + "-py3-none-any.whl"
		body := wheel(t, p.name, p.version, p.requires, map[string]string{p.name + ".py": p.source})
		sum := sha256.Sum256(body)
		s.add("/simple/"+p.name+"/", "text/html", fmt.Appendf(nil, "<!DOCTYPE html><html><body><a href=\"/files/%s#sha256=%s\">%s</a></body></html>", file, hex.EncodeToString(sum[:]), file))
		s.add("/files/"+file, "application/zip", body)
	}
	return s
}
