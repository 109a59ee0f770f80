package realtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"path/filepath"
	"strings"
	"testing"

	"cloister/audit"
)

// readHost is a name whose requests rules read.
const readHost = "api.example.com"

// readable is an internet in which one organisation of an API may be read.
func readable(w *world) {
	w.net.handle(readHost, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s %s %d", r.Method, r.RequestURI, len(body))
	}))
	w.rules = map[string][]string{readHost: {
		`{domain: api.example.com, methods: [GET, HEAD], paths: ["/repos/acme/**"]}`,
		`{domain: api.example.com, methods: [POST], paths: ["/upload"], bytes: 1KiB}`,
	}}
}

// Unmodified programs, each with its own idea of where authorities are found,
// get through a connection that is read.
func TestReadByPrograms(t *testing.T) {
	for _, tt := range []struct{ name, need, script string }{
		{"curl", "curl", `curl -sS https://api.example.com/repos/acme/x`},
		{"curl by its proxy", "curl", `curl -sS --proxy http://proxy.cloister.internal:3128 https://api.example.com/repos/acme/x`},
		{"python", "python3", `python3 -c 'import urllib.request as u; print(u.urlopen("https://api.example.com/repos/acme/x").read().decode(), end="")'`},
		{"node", "node", `node -e 'fetch("https://api.example.com/repos/acme/x").then(r => r.text()).then(t => process.stdout.write(t))'`},
		{"node's https", "node", `node -e 'require("https").get("https://api.example.com/repos/acme/x", r => r.pipe(process.stdout))'`},
		{"openssl", "openssl", `printf 'GET /repos/acme/x HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n' | openssl s_client -quiet -verify_return_error -servername api.example.com -connect api.example.com:443 2>/dev/null | tail -1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			need(t, tt.need, tt.need)
			readable(w)
			res := w.script(tt.script)
			if res.stdout != "GET /repos/acme/x 0" {
				t.Errorf("got %q; stderr: %s", res.stdout, res.stderr)
			}
			if len(w.requests(200)) != 1 {
				t.Errorf("the record:\n%s", w.journal())
			}
		})
	}
}

// requests are the answered requests of the record.
func (w *world) requests(status int) []audit.Event {
	var out []audit.Event
	for _, e := range w.events() {
		if e.Kind == audit.HTTPRequest && e.Status == status {
			out = append(out, e)
		}
	}
	return out
}

// What a rule does not name is refused with the words that would allow it, and
// with these it passes.
func TestReadRefused(t *testing.T) {
	w := newWorld(t)
	need(t, "curl", "curl")
	readable(w)
	for _, words := range []string{
		"https://api.example.com/repos/other/x",
		"--path-as-is https://api.example.com/repos/acme/../other/x",
		"--path-as-is https://api.example.com/repos/acme/%2e%2e/other/x",
		"-X DELETE https://api.example.com/repos/acme/x",
		"-d x https://api.example.com/repos/acme/x",
		"http://api.example.com/repos/other/x",
	} {
		res := w.script("curl -sS -o body -w %{http_code} " + words + "; cat body >&2; rm body")
		if res.stdout != "403" || !strings.Contains(res.stderr, `"hints"`) || !strings.Contains(res.stderr, "config.yaml:") {
			t.Errorf("%s: %s %s", words, res.stdout, res.stderr)
		}
	}
	if res := w.script("curl -sS -o /dev/null -w %{http_code} --data-binary @/bin/sh https://api.example.com/upload"); res.stdout != "413" {
		t.Errorf("a large body: %s", res.stdout)
	}
	if n := w.net.seen()[readHost]; len(w.requests(200)) != 0 {
		t.Errorf("%d connections, of which one was answered:\n%s", len(n), w.journal())
	}
	res := w.script(`curl -sS -H 'Accept: text/plain' https://api.example.com/repos/other/x`)
	_, hint, _ := strings.Cut(res.stdout, "proxy: {allow: [")
	hint, _, _ = strings.Cut(hint, "]}\n")
	w.rules[readHost] = append(w.rules[readHost], hint)
	w.reload()
	if res := w.script("curl -sS https://api.example.com/repos/other/x"); res.stdout != "GET /repos/other/x 0" {
		t.Errorf("with %q: %s", hint, res.stdout)
	}
	explained := w.cloister(t.Context(), "policy", "explain", "https://api.example.com/repos/acme/x", "--method", "PUT")
	if explained.status != 0 || !strings.HasPrefix(explained.stdout, "deny PUT https://api.example.com/repos/acme/x\n") || !strings.Contains(explained.stdout, "  another method") {
		t.Errorf("explain: %s%s", explained.stdout, explained.stderr)
	}
}

// git may fetch and not push, by rules about requests.
func TestReadGit(t *testing.T) {
	w := newWorld(t)
	root := w.gitServer()
	backend := filepath.Join(strings.TrimSpace(w.host("git", "--exec-path")), "git-http-backend")
	need(t, "git", backend)
	w.net.handle("git.example.com", &cgi.Handler{
		Path: backend, Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.home, "PATH=" + w.env["PATH"]},
	})
	w.rules = map[string][]string{"git.example.com": {
		`{domain: git.example.com, methods: [GET], paths: ["/**/info/refs"], query: {service: git-upload-pack}}`,
		`{domain: git.example.com, methods: [POST], paths: ["/**/git-upload-pack"]}`,
	}}
	w.script(`
git clone -q https://git.example.com/library.git
cd library
git fsck --strict
git commit -q --allow-empty -m third
git fetch -q origin
`)
	res := w.run("git", "-C", "library", "push", "-q", "origin", "HEAD:mine")
	if res.status == 0 || !strings.Contains(res.stderr, "403") || !strings.Contains(res.stderr, "hint: in config.yaml: proxy: {allow: [{domain: git.example.com, methods: [GET], paths:") {
		t.Errorf("push: status %d: %s", res.status, res.stderr)
	}
	if !strings.Contains(res.stderr, "remote: hint:") {
		t.Errorf("git itself was told nothing: %s", res.stderr)
	}
	// Also where only the second of its two requests is refused.
	w.rules["git.example.com"] = append(w.rules["git.example.com"], `{domain: git.example.com, methods: [GET]}`)
	w.reload()
	for _, version := range []string{"HTTP/1.1", "HTTP/2"} {
		res := w.run("git", "-c", "http.version="+version, "-C", "library", "push", "-q", "origin", "HEAD:mine")
		if res.status == 0 || !strings.Contains(res.stderr, "remote: cloister refused this request") {
			t.Errorf("push by %s: status %d: %s", version, res.status, res.stderr)
		}
	}
	branch := func() string {
		return w.host("git", "-C", filepath.Join(root, "library.git"), "branch", "--list", "mine")
	}
	if out := branch(); out != "" {
		t.Errorf("the server has %q", out)
	}
	// The words that the first refusal told allow it.
	_, words, _ := strings.Cut(res.stderr, "proxy: {allow: [")
	words, _, _ = strings.Cut(words, "]}\n")
	first, second, _ := strings.Cut(words, "}}, {")
	w.rules["git.example.com"] = append(w.rules["git.example.com"][:2], first+"}}", "{"+second)
	w.reload()
	w.host("git", "-C", filepath.Join(root, "library.git"), "config", "http.receivepack", "true")
	if res := w.run("git", "-C", "library", "push", "-q", "origin", "HEAD:mine"); res.status != 0 || branch() == "" {
		t.Errorf("push by %q: status %d: %s", words, res.status, res.stderr)
	}
}

// Java has a store of its own.
func TestReadByJava(t *testing.T) {
	w := newWorld(t)
	need(t, "java", "java")
	readable(w)
	w.write(w.project, "Get.java", `
import java.net.URI;
import java.net.http.*;
class Get {
	public static void main(String[] args) throws Exception {
		var response = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()
			.send(HttpRequest.newBuilder(URI.create(args[0])).build(), HttpResponse.BodyHandlers.ofString());
		System.out.print(response.body());
	}
}
`)
	res := w.run("java", "Get.java", "https://"+readHost+"/repos/acme/x")
	if strings.Contains(res.stderr, "compiler") {
		t.Skip("need javac: " + res.stderr)
	}
	if res.stdout != "GET /repos/acme/x 0" {
		t.Errorf("got %q; status %d; stderr: %s", res.stdout, res.status, res.stderr)
	}
}
