package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
)

//go:embed assets
var assets embed.FS

// pages are the files of the window, as they lie in assets, by their address.
type pages struct {
	files map[string]asset
}

// preloads is where a page's modules are named, so that a browser asks for all of
// them at once: it finds out of each which ones it needs when it has read it.
const preloads = "<!--modules-->"

type asset struct {
	text []byte
	kind string
	tag  string
}

// Pages are the pages there are, by the last part of their address.
func Pages() []string {
	return []string{"now", "asks", "traffic", "commands", "files", "time", "tools", "secrets", "policy", "audit", "doctor",
		"terminal"}
}

// public is what a browser needs before it is known: it holds no data.
func public() []string {
	return []string{"/login.html", "/login.js", "/sign.js", "/words.js", "/window.css", "/favicon.svg", "/begin.js",
		"/again.js"}
}

func newPages(run string) *pages {
	p := &pages{files: map[string]asset{}}
	_ = fs.WalkDir(assets, "assets", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := assets.ReadFile(name)
		if err != nil {
			return err
		}
		kind := mime.TypeByExtension(path.Ext(name))
		switch path.Ext(name) { // whatever the host's table says
		case ".js", ".mjs":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".html":
			kind = "text/html; charset=utf-8"
		case ".svg":
			kind = "image/svg+xml"
		}
		p.files[strings.TrimPrefix(name, "assets")] = newAsset(text, kind)
		return nil
	}) // files of this program: reading them cannot fail
	index := p.files["/index.html"]
	for _, name := range Pages() {
		var links strings.Builder
		for _, module := range p.modules("/main.js", "/pages/"+name+".js") {
			fmt.Fprintf(&links, "<link rel=\"modulepreload\" href=\"%s\">\n", run+module)
		}
		text := bytes.Replace(index.text, []byte(preloads+"\n"), []byte(links.String()), 1)
		p.files["/"+name] = newAsset(bytes.ReplaceAll(text, []byte(`="/window.css"`), []byte(`="`+run+`/window.css"`)),
			index.kind)
	}
	return p
}

func newAsset(text []byte, kind string) asset {
	sum := sha256.Sum256(text)
	return asset{text, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// modules are those that some need, with what these need, each once.
func (p *pages) modules(names ...string) []string {
	for i := 0; i < len(names); i++ {
		for line := range strings.Lines(string(p.files[names[i]].text)) {
			_, from, ok := strings.Cut(line, " from '.")
			if at, _, end := strings.Cut(from, "'"); ok && end && strings.HasPrefix(line, "import ") {
				if name := path.Join(path.Dir(names[i]), "."+at); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// place is the file that a path means.
func (p *pages) place(at string) string {
	switch at {
	case "/login":
		return "/login.html"
	case "/":
		return "/now"
	}
	return at
}

// page reports whether a person may see a path in the address line.
func (p *pages) page(at string) bool {
	if at == "/" {
		return true
	}
	for _, name := range Pages() {
		if at == "/"+name {
			return true
		}
	}
	return false
}

// open reports whether a path is for browsers that are not known yet.
func (p *pages) open(at string) bool {
	for _, name := range public() {
		if p.place(at) == name {
			return true
		}
	}
	return false
}

// serve answers one file, which a browser mayKeep without ever asking again if it is
// below the folder of this run.
func (p *pages) serve(w http.ResponseWriter, r *http.Request, mayKeep bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		tell(w, refuse(http.StatusMethodNotAllowed, r.Method+" means nothing here"))
		return
	}
	a, ok := p.files[p.place(r.URL.Path)]
	if n := strings.TrimPrefix(r.URL.Path, "/favicon/"); n != r.URL.Path && len(n) == len("0.svg") {
		a, ok = p.files["/favicon.svg"], true
		a.text = []byte(strings.Replace(string(a.text), "<!--count-->", badge(n[0]), 1))
		a.tag = a.tag[:len(a.tag)-1] + n[:1] + `"`
	}
	if !ok {
		tell(w, refuse(http.StatusNotFound, "no such page"))
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "private, no-cache")
	if mayKeep && !strings.HasPrefix(a.kind, "text/html") {
		w.Header().Set("Cache-Control", "private, max-age=604800, immutable")
	}
	w.Header().Set("ETag", a.tag)
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(a.text) // a caller that left needs no answer
}

// badge is the number of asks in the favicon; more than nine are a plus.
func badge(n byte) string {
	if n < '1' || n > '9' {
		if n != 'm' {
			return ""
		}
		n = '+'
	}
	return `<circle cx="22" cy="22" r="10" fill="#c2410c"/>` +
		`<text x="22" y="27" font-size="15" font-family="sans-serif" ` +
		`font-weight="700" text-anchor="middle" fill="#fff">` + string(n) + `</text>`
}

// headers forbid what the pages do not need.
func (d *Door) headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self' ws://"+d.host+
		"; worker-src 'none'; frame-ancestors 'none'; form-action 'none'; base-uri 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}
