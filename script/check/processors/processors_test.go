package processors_test

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/script/check/processors"
)

func TestIdle(t *testing.T) {
	m := processors.Meter{File: filepath.Join(t.TempDir(), "stat")}
	for i, c := range []struct {
		text string
		want float64
	}{
		{"cpu  100 0 0 100 0 0 0 0 0 0\ncpu0 1\n", 0},
		{"cpu  140 10 10 130 10 0 0 0 50 0\n", 0.4},
		{"cpu  240 10 10 130 10 0 0 0 0 0\n", 0},
		{"cpu  240 10 10 130 10 0 0 0 0 0\n", 0}, // no time went by
		{"cpu  240 10 10 230 10 0 0 0 0 0\n", 1},
		{"intr 1\n", 0},
		{"cpu  a b c d e f g h\n", 0},
		{"cpu  240 10 10 230 10 0 0 0 0 0\n", 0}, // it did not tell before
	} {
		if err := os.WriteFile(m.File, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := m.Idle(); got != c.want {
			t.Errorf("%d: %v, want %v", i, got, c.want)
		}
	}
	if err := os.Remove(m.File); err != nil {
		t.Fatal(err)
	}
	if got := m.Idle(); got != 0 {
		t.Errorf("a system that does not tell: %v", got)
	}
}
