package main

import (
	"bufio"
	"cloister/cmd/cloister/cli"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestRulesPage holds docs/rules.md to what loads: its configuration, the answers that
// it expects, and its Cedar.
func TestRulesPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(?:yaml|cedar)\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 4 {
		t.Fatalf("%d blocks, want a configuration, the answers expected, a policy, and where questions go", len(blocks))
	}
	blocks[0][1] = slices.Concat(blocks[0][1], blocks[3][1]) // one configuration
	home := t.TempDir()
	for i, name := range []string{"cloister/config.yaml", "tests.yaml", "cloister/policy/page.cedar"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), blocks[i][1], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, words := range [][]string{{"policy", "check"}, {"policy", "test", filepath.Join(home, "tests.yaml")}} {
		said, err := os.Create(filepath.Join(t.TempDir(), "said"))
		if err != nil {
			t.Fatal(err)
		}
		a := &app{cli.App{Stdout: said, Stderr: said, Out: bufio.NewWriter(said), UID: os.Getuid(), Env: cli.Environ{
			"HOME": home, "XDG_CONFIG_HOME": home, "XDG_STATE_HOME": home, "XDG_DATA_HOME": home, "XDG_RUNTIME_DIR": home,
		}}}
		if status := a.main(t.Context(), words); status != 0 {
			text, _ := os.ReadFile(said.Name())
			t.Errorf("%q ends %d: %s", words, status, text)
		}
		said.Close()
	}
}
