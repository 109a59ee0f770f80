package realtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/audit"
	"cloister/internal/needs"
)

// engine is one of these tests' own, with a store of images.
type engine struct{ socket, images string }

func engineOf(t *testing.T) engine {
	t.Helper()
	e := engine{os.Getenv("CLOISTER_TEST_ENGINE"), os.Getenv("CLOISTER_TEST_IMAGES")}
	if e.socket == "" || e.images == "" {
		needs.Missing(t, "docker", errors.New("CLOISTER_TEST_ENGINE and CLOISTER_TEST_IMAGES are not both set: script/test docker starts an engine for this story"))
	}
	return e
}

// contained gives the world the engine, and its store of images.
func (w *world) contained(e engine) {
	w.t.Helper()
	if err := os.Symlink(e.images, filepath.Join(w.folder("data/cloister"), "images")); err != nil {
		w.t.Fatal(err)
	}
	w.env["DOCKER_HOST"] = "unix://" + e.socket
}

// TestEngineClaudeCode has the agent do the same work natively, natively on an
// image and in containers of that image: all come to the same, and the record has
// the same shape. CLOISTER_TEST_ENGINE is the engine's socket, CLOISTER_TEST_IMAGES a
// store whose cloister-base has the agent.
func TestEngineClaudeCode(t *testing.T) {
	e := engineOf(t)
	var (
		mu     sync.Mutex
		shapes = map[string][]string{}
	)
	t.Run("story", func(t *testing.T) {
		for kind, flags := range map[string][]string{
			"native": nil,
			"image":  {"--image", "cloister-base"},
			"docker": {"--isolation", "docker", "--image", "cloister-base"},
		} {
			t.Run(kind, func(t *testing.T) {
				w := newWorld(t)
				if flags == nil {
					w.agent("claude")
				} else {
					w.contained(e)
				}
				w.args = flags
				w.fixedByClaude()
				mu.Lock()
				defer mu.Unlock()
				shapes[kind] = w.shape()
			})
		}
	})
	for _, kind := range []string{"image", "docker"} {
		if diff := cmp.Diff(shapes["native"], shapes[kind]); diff != "" {
			t.Errorf("the record of %s has another shape than the native one (-native +%s):\n%s", kind, kind, diff)
		}
	}
	if len(shapes["native"]) < 8 {
		t.Errorf("the record has hardly a shape: %q", shapes["native"])
	}
}

// shape is which kinds of things the record tells, each once: how often a program
// asks again is its own affair, and so is whether it leaves a connection half open when it
// ends, which the gate refuses by itself.
func (w *world) shape() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.events() {
		if e.Action == "refuse" {
			continue
		}
		line := fmt.Sprintf("%s %s %s %s %s:%d %s", e.Kind, e.Action, e.Agent, e.Verdict, e.Host, e.Port, strings.ReplaceAll(e.Rule, w.dir, ""))
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

// TestEngineBuildTrusts: the steps of a build trust what this host trusts, so behind
// an authority that the image does not know, and where the guardian opens their
// connections, as it does unless a rule says otherwise.
func TestEngineBuildTrusts(t *testing.T) {
	e := engineOf(t)
	for name, tunnel := range map[string]bool{"the authority of a session": false, "an authority of this host": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.contained(e)
			w.net.handle("packages.example.com", http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, "hello by TLS\n") }))
			if tunnel {
				w.rules = map[string][]string{"packages.example.com": {"{domain: packages.example.com, tls: tunnel}"}}
			}
			w.configure()
			w.ran = true
			// A build that fails tells what its steps said.
			file := filepath.Join(w.dir, "definition")
			write(t, file, "FROM cloister-base\nRUN curl -sS https://packages.example.com/list && exit 7\n", 0o644)
			ctx, cancel := context.WithTimeout(t.Context(), storyTime)
			defer cancel()
			res := w.cloister(ctx, "image", "build", "--file", file, "-t", "never")
			if res.status != 1 || res.stdout != "" || strings.Count(res.stderr, "hello by TLS\n") != 1 || !strings.Contains(res.stderr, "non-zero code: 7") {
				t.Errorf("status %d, stdout %q, stderr: %s\n%s", res.status, res.stdout, res.stderr, w.journal())
			}
			opened := slices.ContainsFunc(w.events(), func(e audit.Event) bool { return e.Kind == audit.HTTPRequest && e.Host == "packages.example.com" })
			if opened == tunnel {
				t.Errorf("the request was read: %v\n%s", opened, w.journal())
			}
		})
	}
}
