package realtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOwnSandboxes: what an agent would enclose its commands in has no place in a cloister, which is that already. Where
// the person's settings or the agent's own default ask for it, it is switched off, and its commands run.
func TestOwnSandboxes(t *testing.T) {
	const command = "echo ran-$((40+2))"
	t.Run("claude", func(t *testing.T) {
		w := newWorld(t)
		w.agent("claude")
		need(t, "bwrap", "bwrap")
		need(t, "socat", "socat")
		w.write(w.project, ".claude/settings.json", `{"sandbox": {"enabled": true, "allowUnsandboxedCommands": false}}`)
		t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(w.project, ".claude")) }) // no stub is to be left in its place
		api := &messagesAPI{has: "Bash", last: "Done.", steps: []step{{"Bash", map[string]any{"command": command, "description": "Say"}}}}
		w.net.handle("api.anthropic.com", api)
		w.args = append(w.args, "-e", "ANTHROPIC_API_KEY=sk-ant-test-0123")
		res := w.must("claude", "-p", "Say it.", "--dangerously-skip-permissions")
		if got := api.result(0); !strings.Contains(got, "ran-42") {
			t.Errorf("its command said %q; stderr: %s", got, res.stderr)
		}
	})
	t.Run("codex", func(t *testing.T) {
		w := newWorld(t)
		w.agent("codex")
		api := &responsesAPI{last: "Done.", steps: []step{{"exec_command", map[string]any{"cmd": command, "yield_time_ms": 30_000}}}}
		w.net.handle("api.openai.com", api)
		w.args = append(w.args, "-e", "CODEX_API_KEY=sk-test-89ab")
		res := w.must("codex", "exec", "Say it.")
		if got := api.result(0); !strings.Contains(got, "ran-42") {
			t.Errorf("its command said %q; stderr: %s", got, res.stderr)
		}
	})
}
