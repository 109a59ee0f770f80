package realtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/internal/needs"
)

// TestEngineClaudeCode has the agent do the same work natively, natively on an
// image and in containers of that image: all come to the same, and the record has
// the same shape. CLOISTER_TEST_ENGINE is the engine's socket, CLOISTER_TEST_IMAGES a
// store whose cloister-base has the agent.
func TestEngineClaudeCode(t *testing.T) {
	socket, images := os.Getenv("CLOISTER_TEST_ENGINE"), os.Getenv("CLOISTER_TEST_IMAGES")
	if socket == "" || images == "" {
		needs.Missing(t, "docker", errors.New("CLOISTER_TEST_ENGINE and CLOISTER_TEST_IMAGES are not both set: script/test docker starts an engine for this story"))
	}
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
				} else if err := os.Symlink(images, filepath.Join(w.folder("data/cloister"), "images")); err != nil {
					t.Fatal(err)
				}
				w.args, w.env["DOCKER_HOST"] = flags, "unix://"+socket
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
// asks again is its own affair.
func (w *world) shape() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.events() {
		line := fmt.Sprintf("%s %s %s %s %s:%d %s", e.Kind, e.Action, e.Agent, e.Verdict, e.Host, e.Port, strings.ReplaceAll(e.Rule, w.dir, ""))
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}
