//go:build linux

package webtest

import (
	"os"
	"path/filepath"
	"testing"

	"cloister/internal/needs"
)

// axe holds the page to what people need who do not see it, or not well, in both
// colours (axe-core, by script/agents).
func (tb *tab) axe(name string) {
	tb.t.Helper()
	source := axeSource(tb.t)
	if source == "" {
		return
	}
	for _, theme := range []string{"light", "dark"} {
		tb.Do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": theme}}})
		if !eval[bool](tb, `Boolean(window.axe)`) {
			if err := tb.Try(source+"; true", nil); err != nil {
				tb.t.Fatalf("axe: %v", err)
			}
		}
		found := eval[[]struct {
			ID, Impact string
			Nodes      []string
		}](tb, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => ({ID: v.id, Impact: v.impact, Nodes: v.nodes.map((n) => n.html.slice(0, 160) + ' ' + (n.any[0] ? n.any[0].message : ''))})))`)
		for _, f := range found {
			if f.Impact == "serious" || f.Impact == "critical" {
				tb.t.Errorf("axe: %s, %s: %s: %s: %q", name, theme, f.Impact, f.ID, f.Nodes)
			} else {
				tb.t.Logf("axe: %s, %s: %s: %s: %q", name, theme, f.Impact, f.ID, f.Nodes)
			}
		}
	}
}

func axeSource(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/nonexistent"
	}
	for _, prefix := range []string{os.Getenv("CLOISTER_AGENTS_PREFIX"), filepath.Join(cache, "cloister-agents")} {
		if text, err := os.ReadFile(filepath.Join(prefix, "lib/node_modules/axe-core/axe.min.js")); err == nil {
			return string(text)
		}
	}
	if needs.Claimed("axe") {
		t.Fatal("CLOISTER_TEST_NEEDS claims axe, and it is not there: script/agents")
	}
	return ""
}
