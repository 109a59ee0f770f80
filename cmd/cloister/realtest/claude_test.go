package realtest

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestClaudeCode(t *testing.T) {
	w := newWorld(t)
	w.agent("claude")
	api := w.fixedByClaude()

	t.Run("continue", func(t *testing.T) {
		// The conversation is in the private home of the project.
		api.last = "We fixed add."
		again := w.must("claude", "--continue", "-p", "What did we do?", "--dangerously-skip-permissions")
		if got := strings.TrimSpace(again.stdout); got != api.last {
			t.Errorf("claude --continue said %q, want %q; stderr: %s", got, api.last, again.stderr)
		}
		if text := api.lastRequest(); !strings.Contains(text, "add.js does not add") || !strings.Contains(text, "What did we do?") {
			t.Errorf("the second run did not send the conversation of the first: %.300s", text)
		}
	})
}

// fixedByClaude has the real agent find a fault, mend it and commit, in a cloister
// that it looks around in, and looks at all that came of it.
func (w *world) fixedByClaude() *messagesAPI {
	t := w.t
	t.Helper()
	need(t, "node", "node")
	w.wrongAdd()
	api := &messagesAPI{has: "Bash", last: "Fixed: add adds now.", steps: append(claudeMends(w), step{"Bash", map[string]any{"command": lookAround, "description": "Look around"}})}
	w.net.handle("api.anthropic.com", api)
	w.args = append(w.args, "-e", "ANTHROPIC_API_KEY=sk-ant-test-0123")
	res := w.must("claude", "-p", "add.js does not add. Fix it.", "--dangerously-skip-permissions")

	if got := strings.TrimSpace(res.stdout); got != api.last {
		t.Errorf("claude said %q, want %q; stderr: %s", got, api.last, res.stderr)
	}
	api.check(t, "sk-ant-test-0123")
	checkPayload(t, api.result(0))
	for i, want := range map[int]string{0: "WRONG", 1: "a - b", 4: "RIGHT"} {
		if !strings.Contains(api.result(i), want) {
			t.Errorf("step %d: %q does not tell %q", i, api.result(i), want)
		}
	}
	w.checkFixed()
	w.checkLookedAround(api.result(5), res)
	w.took = res.took
	return api
}

// TestClaudeCodeRefused is an API that no rule allows: the agent has to hear of
// it, and the person why.
func TestClaudeCodeRefused(t *testing.T) {
	w := newWorld(t)
	w.agent("claude")
	w.settings = "resources: {pids: 512}\n"
	w.args = []string{"-e", "ANTHROPIC_API_KEY=sk-ant-test-0123", "-e", "CLAUDE_CODE_MAX_RETRIES=0"}
	res := w.run("claude", "-p", "Hello", "--dangerously-skip-permissions")
	if res.status != 1 {
		t.Errorf("status %d, want 1; stdout: %s stderr: %s", res.status, res.stdout, res.stderr)
	}
	if want := "cloister: refused api.anthropic.com"; !strings.Contains(res.stderr, want) {
		t.Errorf("stderr %q does not tell %q", res.stderr, want)
	}
	t.Logf("%v %s", res.took, res.stdout)
}

// claudeMends finds the fault of wrongAdd by its test, mends it, and commits.
func claudeMends(w *world) []step {
	in := func(name string) string { return filepath.Join(w.project, name) }
	return []step{
		{"Bash", map[string]any{"command": "node add.test.js; " + whoAmI, "description": "Run the test"}},
		{"Read", map[string]any{"file_path": in("add.js")}},
		{"Edit", map[string]any{"file_path": in("add.js"), "old_string": "a - b", "new_string": "a + b"}},
		{"Write", map[string]any{"file_path": in("docs/notes.md"), "content": "# Notes\n\nadd adds.\n"}},
		{"Bash", map[string]any{"command": "node add.test.js && git add -A && git commit -qm 'add: add' && git status --short", "description": "Test and commit"}},
	}
}
