//go:build cloister_layeroff

package microvm_test

import (
	"path/filepath"
	"strings"
	"testing"

	"cloister/sandbox"
	"cloister/sandbox/sandboxtest"
)

// TestWithout leaves out one wall of this level's own at a time, beside all of the guest's, which
// root there is past: what comes off then is held by that wall alone, and the rest by others too.
func TestWithout(t *testing.T) {
	driver := built(t)
	for layer, comes := range map[string][]string{"modes": {"chmod 4755 file", "chmod 2755 file"}, "server": nil} {
		t.Run(layer, func(t *testing.T) {
			outside(t)
			t.Setenv("CLOISTER_LAYER_OFF", layer)
			h := sandboxtest.New(t, driver())
			h.Write(t, "file", "content\n")
			h.Write(t, ".envrc", "protected\n")
			ready := filepath.Join(h.Project, "ready")
			var spec sandbox.Spec
			out := h.Run(t, sandboxtest.Options{Change: func(s *sandbox.Spec) { spec = *s }, During: func(b sandbox.Box) {
				await(t, ready)
				m := &machine{driver: h.Driver, box: b, spec: spec}
				may, mayNot := rooted(h)
				text := asRoot(t, h, m, append(may, mayNot...)...)
				t.Log(text)
				for _, c := range append(may, comes...) {
					if !strings.Contains(text, "did "+c+"\n") {
						t.Errorf("did not come off: %s", c)
					}
				}
				for _, c := range mayNot {
					if strings.Contains(text, "did "+c+"\n") && !strings.Contains(strings.Join(comes, "\n"), c) {
						t.Errorf("came off: %s", c)
					}
				}
				if found := odd(t, h); (len(found) > 0) != (len(comes) > 0) {
					t.Errorf("on the host: %q", found)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}}, "sh", "-c", "touch ready; while :; do sleep 1; done")
			_ = out // it was ended
		})
	}
}
