package realtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLearned has what real programs open and execute recorded, suggested and kept: the same
// passes, and another file and another program do not, and are on record.
func TestLearned(t *testing.T) {
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		t.Skip("seven starts of npm, go and claude each: CLOISTER_TEST_LONG=1")
	}
	for name, prepare := range map[string]func(w *world) []string{
		"npm": func(w *world) []string {
			need(w.t, "npm", "npm")
			w.write(w.project, "package.json", `{"name": "demo", "version": "1.0.0", "scripts": {"test": "node --test"}}`)
			w.write(w.project, "sum.test.js", "require('node:test')('sum', () => require('node:assert').equal(1 + 2, 3))\n")
			return []string{"npm", "test"}
		},
		"go": func(w *world) []string {
			w.env["PATH"] = filepath.Dir(need(w.t, "go", "go")) + ":" + w.env["PATH"]
			w.write(w.project, "go.mod", "module demo\n\ngo 1.26\n")
			w.write(w.project, "sum_test.go", "package demo\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {}\n")
			return []string{"go", "test", "-count=1", "."}
		},
		"claude": func(w *world) []string {
			need(w.t, "node", "node")
			w.agent("claude")
			w.net.handle("api.anthropic.com", &messagesAPI{last: "Hello to you."})
			w.args = []string{"-e", "ANTHROPIC_API_KEY=sk-ant-test-0123"}
			return []string{"claude", "-p", "Hello", "--dangerously-skip-permissions"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			command := prepare(w)
			w.write(w.project, ".env", "not to be read\n")
			args := w.args
			in := func(mode, name string) { w.args = append([]string{"--mode", mode, "--name", name}, args...) }
			in("record", "first")
			w.must(command...)
			in("record", "seen")
			w.must(command...)
			suggest := func(session string) string {
				ctx, cancel := context.WithTimeout(t.Context(), storyTime)
				defer cancel()
				res := w.cloister(ctx, "policy", "suggest", "--files", "--session", session)
				if res.status != 0 {
					t.Fatalf("suggest: status %d: %s", res.status, res.stderr)
				}
				return res.stdout
			}
			text := suggest("seen")
			if strings.Contains(text, `/.env"`) || !strings.Contains(text, "ProcessExec") {
				t.Fatalf("suggested:\n%s", text)
			}
			t.Logf("%d lines:\n%s", strings.Count(text, "\n"), text)
			w.write(w.env["XDG_CONFIG_HOME"], "cloister/policy/files.cedar", text)
			w.reload()
			in("shadow", "shadow")
			w.must(command...)
			if more := suggest("shadow"); more != "" {
				t.Errorf("in shadow there is more:\n%s", more)
			}
			in("enforce", "kept")
			w.must(command...)
			in("enforce", "refused")
			if res := w.run("/usr/bin/id"); res.status == 0 || strings.Contains(res.stdout, "uid=") {
				t.Errorf("another program: status %d: %s", res.status, res.stdout)
			}
			for _, e := range w.events() {
				if e.Session == "kept" && e.Kind == "file.denied" {
					t.Errorf("refused: %s %s: %s", e.Action, e.Resource, e.Reason)
				}
			}
			if j := w.journal(); !strings.Contains(j, "/usr/bin/id") {
				t.Errorf("what was refused is not on record: %s", j)
			}
		})
	}
}
