package realtest

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestOpencode(t *testing.T) {
	w := newWorld(t)
	w.agent("opencode")
	need(t, "node", "node")
	w.wrongAdd()
	api := &messagesAPI{has: "bash", last: "Fixed: add adds now.", steps: append(opencodeMends(w), step{"bash", map[string]any{"command": lookAround, "description": "Look around"}})}
	w.net.handle("api.anthropic.com", api)
	w.args = []string{"-e", "ANTHROPIC_API_KEY=sk-ant-test-4567", "-e", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"-e", `OPENCODE_PERMISSION={"*":"allow","external_directory":"allow"}`}
	res := w.must("opencode", "run", "--model", "anthropic/claude-sonnet-4-5", "add.js does not add. Fix it.")

	if !strings.Contains(res.stdout, api.last) {
		t.Errorf("opencode said %q, want %q; stderr: %s", res.stdout, api.last, res.stderr)
	}
	api.check(t, "sk-ant-test-4567")
	checkPayload(t, api.result(0))
	for i, want := range map[int]string{0: "WRONG", 1: "a - b", 4: "RIGHT"} {
		if !strings.Contains(api.result(i), want) {
			t.Errorf("step %d: %q does not tell %q", i, api.result(i), want)
		}
	}
	w.checkFixed()
	w.checkLookedAround(api.result(5), res)
}

// opencodeMends finds the fault of wrongAdd by its test, mends it, and commits.
func opencodeMends(w *world) []step {
	in := func(name string) string { return filepath.Join(w.project, name) }
	return []step{
		{"bash", map[string]any{"command": "node add.test.js; " + whoAmI, "description": "Run the test"}},
		{"read", map[string]any{"filePath": in("add.js")}},
		{"edit", map[string]any{"filePath": in("add.js"), "oldString": "a - b", "newString": "a + b"}},
		{"write", map[string]any{"filePath": in("docs/notes.md"), "content": "# Notes\n\nadd adds.\n"}},
		{"bash", map[string]any{"command": "node add.test.js && git add -A && git commit -qm 'add: add' && git status --short", "description": "Test and commit"}},
	}
}
