package realtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/internal/needs"
)

// TestEngineClaudeCode has the agent do the same work natively, natively on an
// image and in containers: the record must have the same shape. CLOISTER_TEST_ENGINE
// is the engine's socket, CLOISTER_TEST_IMAGES a store with cloister-base in it.
func TestEngineClaudeCode(t *testing.T) {
	socket, images := os.Getenv("CLOISTER_TEST_ENGINE"), os.Getenv("CLOISTER_TEST_IMAGES")
	if socket == "" || images == "" {
		needs.Missing(t, "docker", errors.New("CLOISTER_TEST_ENGINE and CLOISTER_TEST_IMAGES are not both set: script/test docker starts an engine for this story"))
	}
	shapes := map[string][]string{}
	for kind, flags := range map[string][]string{
		"native": nil,
		"image":  {"--image", "cloister-base"},
		"docker": {"--isolation", "docker", "--image", "cloister-base"},
	} {
		w := newSerialWorld(t)
		prefix := w.agent("claude")
		program := "claude"
		if flags != nil {
			// The agent is the machine's, everything else the image's.
			w.args = append(flags, "--expose", prefix)
			program = filepath.Join(prefix, "bin/claude")
			data := w.folder("data/cloister")
			if err := os.Symlink(images, filepath.Join(data, "images")); err != nil {
				t.Fatal(err)
			}
		}
		w.env["DOCKER_HOST"] = "unix://" + socket
		w.fixedByClaude(program)
		shapes[kind] = w.shape()
	}
	for _, kind := range []string{"image", "docker"} {
		if diff := cmp.Diff(shapes["native"], shapes[kind]); diff != "" {
			t.Errorf("the record of %s has another shape than the native one (-native +%s):\n%s", kind, kind, diff)
		}
	}
}

// shape is which kinds of things the record tells, each once: how often a program
// asks again is its own affair.
func (w *world) shape() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.events() {
		line := fmt.Sprintf("%s %s %s %s:%d %s", e.Kind, e.Action, e.Verdict, e.Host, e.Port, e.Rule)
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}
