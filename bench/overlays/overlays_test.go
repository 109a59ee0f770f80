package overlays_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"cloister/bench/overlays"
)

func TestEveryFigureIsTaken(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("layers are Linux's")
	}
	seen := map[string]int{}
	dir := filepath.Join(t.TempDir(), "all")
	err := overlays.Measure(t.Context(), overlays.Options{
		Dir: dir, Files: 300, Changed: 7, Rounds: 2,
		Add: func(subject, contender, unit string, value float64) {
			worked := contender == "cloister"+overlays.Worked
			if contender != "cloister" && !worked || unit != "ms" || value < 0 || value == 0 && !worked {
				t.Errorf("%s of %s: %v %s", subject, contender, value, unit)
			}
			if !worked {
				seen[subject]++
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"checkpoint, live", "held still for it", "diff", "checkpoint, stopped", "restore", "ten forks", "apply", "undo"} {
		if n := seen[overlays.Subject(what, 300, 7)]; n != 2 {
			t.Errorf("%s was measured %d times of 2", what, n)
		}
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Error("something is left:", err)
	}
}
