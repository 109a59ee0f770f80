package corpus

import (
	"archive/tar"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"

	"cloister/devcontainer/features"
	"cloister/devcontainer/featurestest"
	"cloister/escape"
)

// hostileRegistry is a registry whose features are each wrong in one way, and a server of
// the host that none of them may reach.
type hostileRegistry struct {
	server, canary *httptest.Server
	moved          atomic.Bool
	reached, asked atomic.Int64
	packed         map[string]features.Packed
}

func newHostileRegistry() (*hostileRegistry, error) {
	h := &hostileRegistry{packed: map[string]features.Packed{}}
	file := func(name, text string) tar.Header { return tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))} }
	const about, script = `{"id":"x","version":"1.0.0","privileged":true}`, "true\n"
	texts := map[string]string{"devcontainer-feature.json": about, "install.sh": script, "../../../../tmp/sc03a": script}
	own := []tar.Header{file("devcontainer-feature.json", about), file("install.sh", script)}
	for name, more := range map[string][]tar.Header{
		"good": nil, "moved": nil, "wrong": nil, "endless": nil, "away": nil, "near": nil, "token": nil,
		"link":   {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}},
		"name":   {{Name: "n", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}},
		"device": {{Name: "d", Typeflag: tar.TypeBlock, Devmajor: 8}},
		"above":  {file("../../../../tmp/sc03a", script)},
	} {
		p, err := featurestest.PackAs(append(own[:len(own):len(own)], more...), texts)
		if err != nil {
			return nil, err
		}
		h.packed[name] = p
	}
	texts["install.sh"] = "evil\n"
	p, err := featurestest.PackAs(own, texts)
	h.packed["evil"] = p
	h.canary = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { h.reached.Add(1) }))
	h.server = httptest.NewTLSServer(h)
	return h, err
}

func (h *hostileRegistry) close() {
	h.server.Close()
	h.canary.Close()
}

func (h *hostileRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked.Add(1)
	words := strings.Split(strings.TrimPrefix(r.URL.Path, "/v2/"), "/") // team NAME manifests|blobs WHAT
	if len(words) != 4 {
		return
	}
	name := words[1]
	p := h.packed[name]
	if name == "moved" && h.moved.Load() && !strings.HasPrefix(words[3], "sha256:") {
		p = h.packed["evil"]
	}
	if words[2] == "manifests" {
		if name == "token" {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+h.canary.URL+`/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		_, _ = w.Write(p.Manifest)
		return
	}
	switch name {
	case "wrong":
		_, _ = w.Write(h.packed["evil"].Layer)
	case "endless":
		for _, err := w.Write(p.Layer); err == nil; {
			_, err = w.Write(p.Layer)
		}
	case "away":
		http.Redirect(w, r, "https://elsewhere03a.test/layer", http.StatusTemporaryRedirect)
	case "near":
		http.Redirect(w, r, h.canary.URL+"/layer", http.StatusTemporaryRedirect)
	default:
		_, _ = w.Write(p.Layer)
	}
}

func sc03a() escape.Case {
	return escape.Case{
		ID: "SC-03a", Class: "features of a registry",
		Attack: "a devcontainer whose features lie in a hostile registry: archives with links, devices and paths above, bytes of another digest, one without an end, redirects to this machine and to elsewhere, a token's realm on this machine, a version that leads to another digest, a lock file that a session changes, a source that nobody named",
		Source: "devcontainer spec #428; CVE-2024-21626", Layers: []string{"launcher", "image digests", "policy"},
		Host: func(w *escape.World) []escape.Finding {
			h, err := newHostileRegistry()
			if err != nil {
				return escape.NoHost("make a registry", err)
			}
			defer h.close()
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
			if err := w.Write(w.Base+"/sc03a.pem", string(ca)); err != nil {
				return escape.NoHost("write its authority", err)
			}
			return with(func(w *escape.World) string {
				return "version: 1\nproxy:\n  unlisted_domain_behavior: deny\n  presets: []\n  upstream_ca: [\"" + w.Base + "/sc03a.pem\"]\n  hosts: {hostile.example.com: \"" +
					h.server.Listener.Addr().String() + "\"}\ndevcontainer: {features: [hostile.example.com/team/*]}\n"
			}, h.look)(w)
		},
	}
}

// look tries each of the features.
func (h *hostileRegistry) look(r *ruled) []escape.Finding {
	wants := func(feature string) error {
		return r.w.Write(r.project+"/.devcontainer/devcontainer.json",
			`{"image":"debian:12","features":{"`+feature+`":{}}}`)
	}
	lock := r.project + "/.devcontainer/devcontainer-lock.json"
	if err := wants("hostile.example.org/team/good:1"); err != nil {
		return escape.NoHost("write a devcontainer", err)
	}
	unknown := r.cloister("devcontainer", "trust", "-C", r.project)
	out := []escape.Finding{
		found("a source that nobody named is refused, and not asked", strings.Contains(unknown.Stdout, "none that you named") &&
			h.asked.Load() == 0 && !exists(lock), "%d %s%s", unknown.Status, unknown.Stdout, unknown.Stderr),
	}
	for name, says := range map[string]string{
		"link": "neither a file nor a folder", "name": "neither a file nor a folder", "device": "neither a file nor a folder",
		"above": "outside its folder", "wrong": "", "endless": "", "away": "elsewhere03a.test", "near": "", "token": "",
	} {
		// Each is a container's start there, and the same program in it.
		if r.w.Kind.Isolation == "docker" && name != "link" && name != "near" && name != "token" {
			continue
		}
		if err := wants("hostile.example.com/team/" + name + ":1"); err != nil {
			return escape.NoHost("write a devcontainer", err)
		}
		res := r.cloister("devcontainer", "trust", "-C", r.project)
		out = append(out, found("the feature "+name+" is refused by name", res.Status == 1 && strings.Contains(res.Stderr,
			"feature hostile.example.com/team/"+name+":1: ") && strings.Contains(res.Stderr, says) && !exists(lock),
			"%d %s%s", res.Status, res.Stdout, res.Stderr))
	}
	out = append(out, found("nothing was written beside", !exists("/tmp/sc03a") && !exists(r.base+"/data/cloister/features"),
		"/tmp/sc03a or a kept feature is there"))
	record := r.cloister("audit", "tail", "-n", "0", "--json")
	denied := false
	for line := range strings.Lines(record.Stdout) {
		denied = denied || strings.Contains(line, "elsewhere03a.test") && strings.Contains(line, `"verdict":"deny"`)
	}
	if r.w.Kind.Isolation != "docker" {
		out = append(out, found("the redirect to elsewhere is in the record", denied, "%.2000s", record.Stdout))
	}
	if reached := h.reached.Load(); true {
		answer, err := http.Get(h.canary.URL)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			err = answer.Body.Close()
		}
		out = append(out, found("no server of this machine was asked", reached == 0, "%d times", reached),
			found("control: it can be asked, and counts", err == nil && h.reached.Load() == reached+1, "%v", err))
	}
	return append(out, h.pinned(r, wants, lock)...)
}

// pinned is the control, and what becomes of what it pinned.
func (h *hostileRegistry) pinned(r *ruled, wants func(string) error, lock string) []escape.Finding {
	if err := wants("hostile.example.com/team/moved:1"); err != nil {
		return escape.NoHost("write a devcontainer", err)
	}
	agreed := r.cloister("devcontainer", "trust", "-C", r.project)
	digest := features.Digest(h.packed["moved"].Manifest)
	before, err := os.ReadFile(lock)
	out := []escape.Finding{
		found("control: a sound feature is fetched and pinned", agreed.Status == 0 && err == nil && strings.Contains(string(before),
			digest), "%d %s%s %s %v", agreed.Status, agreed.Stdout, agreed.Stderr, before, err),
		found("its power is refused by name", strings.Contains(agreed.Stdout, "privileged"), "%s", agreed.Stdout),
	}
	h.moved.Store(true)
	if err := os.RemoveAll(r.base + "/data/cloister/features"); err != nil {
		return escape.NoHost("forget what was fetched", err)
	}
	again := r.cloister("devcontainer", "trust", "-C", r.project)
	after, _ := os.ReadFile(lock)
	out = append(out, found("what the version leads to now is not taken", again.Status == 0 && string(after) == string(before) &&
		strings.Contains(again.Stderr, "trusted already"), "%d %s%s", again.Status, again.Stderr, after))
	evil := features.Digest(h.packed["evil"].Manifest)
	swap := fmt.Sprintf("while read -r l || [ -n \"$l\" ]; do case $l in *%s*) echo swap;; esac; done <.devcontainer/devcontainer-lock.json; echo x >.devcontainer/devcontainer-lock.json", digest[7:])
	inside := r.run("sh", "-c", swap)
	kept, _ := os.ReadFile(lock)
	out = append(out, found("a session reads the lock file and cannot change it", strings.Contains(inside.Stdout, "swap") &&
		string(kept) == string(before), "%d %s%s", inside.Status, inside.Stdout, inside.Stderr))
	if err := os.WriteFile(lock, []byte(strings.ReplaceAll(string(before), digest, evil)), 0o644); err != nil {
		return escape.NoHost("change the lock file", err)
	}
	changed := r.cloister("run", "-C", r.project, "--devcontainer", "--", "true")
	return append(out, found("one that was changed waits for trust", changed.Status == 125 &&
		strings.Contains(changed.Stderr, "no one has agreed"), "%d %s", changed.Status, changed.Stderr))
}
