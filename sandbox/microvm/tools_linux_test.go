package microvm_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/tools"
)

// TestMachineTools holds docs/tools.md to what the tools of this machine do in one machine, each in a folder of its own.
func TestMachineTools(t *testing.T) {
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		t.Skip("emulated, the first tool alone took ten minutes: CLOISTER_TEST_LONG=1, and -run TestMachineTools/NAME for some")
	}
	outside(t)
	h := sandboxtest.New(t, built(t)())
	ready := filepath.Join(h.Project, "ready")
	var spec sandbox.Spec
	h.Run(t, sandboxtest.Options{
		Change: func(s *sandbox.Spec) { spec = *s },
		During: func(b sandbox.Box) {
			defer b.Close()
			await(t, ready)
			m := &machine{driver: h.Driver, box: b, spec: spec}
			tools.Hold(t, tools.Level{Name: "microvm", Document: "../../docs/tools.md", Root: "/",
				Run: func(t *testing.T, script string) (int, string) {
					began := time.Now()
					said, status := m.sh(t, "exec 2>&1; at=$(mktemp -d) && cd $at && "+script)
					t.Logf("%v: %.40q", time.Since(began).Round(time.Second), script)
					return status, said
				}})
		},
	}, "sh", "-c", "touch ready; while :; do sleep 1; done")
	if _, err := os.Stat(ready); err != nil {
		t.Error(err)
	}
}
