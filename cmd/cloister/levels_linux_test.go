package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloister/cmd/cloister/cli"
)

//go:generate env CLOISTER_WRITE_REFERENCE=1 go test -run ^TestLevels$ -count=1 .

// TestLevels holds the words of --isolation, in configurations and usages alike, to the drivers
// that are registered here, in their order. go generate ./cmd/cloister writes them.
func TestLevels(t *testing.T) {
	file := filepath.Join("..", "..", "config", "levels.txt")
	var got strings.Builder
	for _, c := range (&app{cli.App{Env: cli.Environ{}}}).drivers() {
		got.WriteString(c.Name + "\n")
	}
	if os.Getenv("CLOISTER_WRITE_REFERENCE") != "" {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("config/levels.txt is not what is registered; go generate ./cmd/cloister writes it (-file +drivers):\n%s", diff)
	}
}
