package realtest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// copilotAPI is GitHub's API and Copilot's as far as its agent asks them: who pays, which
// models there are, and the model, which speaks the Messages API.
type copilotAPI struct {
	model *messagesAPI

	mu   sync.Mutex
	keys map[string]bool
}

// canaryGitHub has the shape of a token that is bound to some permissions.
const canaryGitHub = "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u"

const copilotModels = `{"data":[{"id":"claude-sonnet-4.6","name":"Claude","object":"model","vendor":"Anthropic",
"version":"1","preview":false,"model_picker_enabled":true,"is_chat_default":true,"is_chat_fallback":true,
"capabilities":{"family":"claude","type":"chat","object":"model_capabilities","tokenizer":"o200k_base",
"limits":{"max_context_window_tokens":200000,"max_prompt_tokens":120000,"max_output_tokens":64000},
"supports":{"streaming":true,"tool_calls":true,"parallel_tool_calls":true}},
"supported_endpoints":["/v1/messages"],"policy":{"state":"enabled","terms":""}}]}`

func (m *copilotAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	if m.keys == nil {
		m.keys = map[string]bool{}
	}
	m.keys[r.Header.Get("Authorization")] = true
	m.mu.Unlock()
	answer := map[string]string{
		"/user": `{"login":"ada","id":1}`,
		"/copilot_internal/user": `{"login":"ada","access_type_sku":"plus","copilot_plan":"individual_pro",` +
			`"chat_enabled":true,"is_mcp_enabled":true,"endpoints":{"api":"https://api.individual.githubcopilot.com"}}`,
		"/models": copilotModels,
	}[r.URL.Path]
	if answer == "" {
		m.model.ServeHTTP(w, r)
		return
	}
	w.Header().Set("content-type", "application/json")
	fmt.Fprint(w, answer)
}

// TestCopilot is Copilot's agent in a new home and in the same again: it mends a fault and
// commits, then answers from the second start on without what the first one unpacked.
func TestCopilot(t *testing.T) {
	w := newWorld(t)
	need(t, "node", "node")
	w.agent("copilot")
	w.wrongAdd()
	edit := "sed -i 's/a - b/a + b/' add.js && mkdir docs && printf '# Notes\\n\\nadd adds.\\n' >docs/notes.md"
	run := func(command string) step {
		return step{"bash", map[string]any{"command": command, "description": "Work", "mode": "sync", "initial_wait": 60}}
	}
	model := &messagesAPI{has: "bash", last: "Fixed: add adds now.", steps: []step{
		run("node add.test.js; " + whoAmI),
		run(edit),
		run("node add.test.js && git add -A && git commit -qm 'add: add' && git status --short"),
		run(lookAround),
	}}
	api := &copilotAPI{model: model}
	for _, host := range []string{"api.github.com", "api.individual.githubcopilot.com"} {
		w.net.handle(host, api)
	}
	w.opened()
	w.setUp("copilot", canaryGitHub)
	res := w.cloister(t.Context(), "copilot", "-p", "add.js does not add. Fix it.")
	if res.status != 0 || !strings.Contains(res.stdout, model.last) {
		t.Fatalf("copilot: status %d, said %q; stderr: %s\n%s", res.status, res.stdout, res.stderr, w.journal())
	}
	checkPayload(t, model.result(0))
	for i, want := range map[int]string{0: "WRONG", 2: "RIGHT"} {
		if !strings.Contains(model.result(i), want) {
			t.Errorf("step %d: %q does not tell %q", i, model.result(i), want)
		}
	}
	w.checkFixed()
	w.checkLookedAround(model.result(3), res)
	model.steps = nil
	again := w.cloister(t.Context(), "copilot", "-s", "-p", "What is wrong?")
	if again.status != 0 || !strings.Contains(again.stdout, model.last) {
		t.Errorf("copilot again: status %d, said %q; stderr: %s", again.status, again.stdout, again.stderr)
	}
	if got := strings.Join(w.refused(), " "); got != "evil.example.net" {
		t.Errorf("copilot asks for %s, which no rule allows", got)
	}
	for key := range api.keys {
		if strings.TrimPrefix(key, "Bearer ") != canaryGitHub {
			t.Errorf("the API saw the key %q", key)
		}
	}
	w.checkFiles()
}
