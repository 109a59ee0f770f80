package realtest

import (
	"strings"
	"testing"
)

// ofHostCommands stands in what every agent tells its model where host commands
// can be asked for (agent/instructions.go). For Claude Code see also story.check.
const ofHostCommands = "`hostexec CMD [ARG...]` asks for one command on the host"

// offering is a world with a rule for host commands, or with none.
func offering(t *testing.T, agent string, rules bool) *world {
	t.Helper()
	w := newWorld(t)
	need(t, "node", "node")
	w.agent(agent)
	if rules {
		w.settings = "hostexec: {auto_approve: [{pattern: \"^uname -s$\"}]}\n"
	}
	return w
}

// told compares what a model was sent with what there is to say.
func (w *world) told(text string, rules bool) {
	w.t.Helper()
	if strings.Contains(text, ofHostCommands) != rules {
		w.t.Errorf("rules: %t; the model was sent %.2000s", rules, text)
	}
	if status := w.host("git", "status", "--short"); status != "" {
		w.t.Errorf("the project was changed: %s", status)
	}
}

func TestCodexIsToldOfHostCommands(t *testing.T) {
	for name, rules := range map[string]bool{"rules": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			w := offering(t, "codex", rules)
			api := &responsesAPI{last: "Hello."}
			w.net.handle("api.openai.com", api)
			w.args = []string{"-e", "CODEX_API_KEY=sk-test-89ab"}
			w.must("codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "Hello")
			api.mu.Lock()
			defer api.mu.Unlock()
			w.told(api.body, rules)
		})
	}
}

func TestOpencodeIsToldOfHostCommands(t *testing.T) {
	w := offering(t, "opencode", true)
	api := &messagesAPI{has: "bash", last: "Hello."}
	w.net.handle("api.anthropic.com", api)
	w.args = []string{"-e", "ANTHROPIC_API_KEY=sk-ant-test-4567", "-e", "OPENCODE_DISABLE_MODELS_FETCH=1"}
	w.must("opencode", "run", "--model", "anthropic/claude-sonnet-4-5", "Hello")
	w.told(api.lastRequest(), true)
}
