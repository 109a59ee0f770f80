package realtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// responsesAPI is the Responses API with a model that follows a script.
type responsesAPI struct {
	steps []step
	last  string

	mu       sync.Mutex
	results  []string
	requests []string
	auth     map[string]bool
	problems []string
	body     string // of the last request that the model was asked
}

// applyPatch is the model's own tool for changes of files, where an agent offers it.
const applyPatch = "apply_patch_call"

type responsesRequest struct {
	Stream bool
	Input  []struct {
		Type   string          `json:"type"`
		Output json.RawMessage `json:"output"`
	} `json:"input"`
}

func (m *responsesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Upgrade"))
	if m.auth == nil {
		m.auth = map[string]bool{}
	}
	m.auth[r.Header.Get("Authorization")] = true
	if r.Header.Get("Upgrade") != "" {
		// The agent asks for a WebSocket first; this is the answer that makes it
		// take plain HTTP without trying again.
		w.WriteHeader(http.StatusUpgradeRequired)
		return
	}
	if r.URL.Path != "/v1/responses" || r.Method != http.MethodPost {
		w.Header().Set("content-type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":{"message":"not here","type":"invalid_request_error"}}`)
		return
	}
	var req responsesRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil {
		m.problems = append(m.problems, err.Error())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var results []string
	for _, item := range req.Input {
		switch item.Type {
		case "function_call_output", "custom_tool_call_output", applyPatch + "_output":
			var text string
			if json.Unmarshal(item.Output, &text) != nil {
				text = string(item.Output)
			}
			results = append(results, text)
		}
	}
	m.results, m.body = results, string(body)
	if req.Stream {
		m.stream(w, len(results))
		return
	}
	w.Header().Set("content-type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": fmt.Sprintf("resp_%d", len(results)), "object": "response", "status": "completed", "output": []any{m.item(len(results))}, "usage": usage(),
	})
}

func usage() map[string]any {
	return map[string]any{
		"input_tokens": 10, "input_tokens_details": map[string]any{"cached_tokens": 0},
		"output_tokens": 5, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 15,
	}
}

// item is what the model says after n results.
func (m *responsesAPI) item(n int) map[string]any {
	if n >= len(m.steps) {
		return map[string]any{
			"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": m.last, "annotations": []any{}}},
		}
	}
	s := m.steps[n]
	item := map[string]any{"id": fmt.Sprintf("item_%d", n), "call_id": fmt.Sprintf("call_%d", n), "status": "completed"}
	text, isText := s.input["*"].(string)
	switch {
	case s.tool == applyPatch:
		item["type"], item["operation"] = applyPatch, s.input
	case isText: // a tool that takes plain text
		item["type"], item["name"], item["input"] = "custom_tool_call", s.tool, text
	default:
		args, _ := json.Marshal(s.input)
		item["type"], item["name"], item["arguments"] = "function_call", s.tool, string(args)
	}
	return item
}

func (m *responsesAPI) stream(w http.ResponseWriter, n int) {
	w.Header().Set("content-type", "text/event-stream")
	send := func(kind string, v map[string]any) {
		v["type"] = kind
		text, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text)
		w.(http.Flusher).Flush()
	}
	id := fmt.Sprintf("resp_%d", n)
	send("response.created", map[string]any{"response": map[string]any{"id": id}})
	item := m.item(n)
	send("response.output_item.added", map[string]any{"output_index": 0, "item": item})
	send("response.output_item.done", map[string]any{"output_index": 0, "item": item})
	send("response.completed", map[string]any{"response": map[string]any{
		"id": id, "usage": usage(),
	}})
}

func TestCodex(t *testing.T) {
	w := newWorld(t)
	w.agent("codex")
	w.fixedByCodex()
	if got, want := w.refused(), []string{"evil.example.net"}; !slices.Equal(got, want) {
		t.Errorf("asked for %q in vain, want %q", got, want)
	}
}

// fixedByCodex has the real agent do what fixedByClaude has another do.
func (w *world) fixedByCodex() {
	t := w.t
	t.Helper()
	need(t, "node", "node")
	w.wrongAdd()
	patch := `*** Begin Patch
*** Update File: add.js
@@
-exports.add = (a, b) => a - b
+exports.add = (a, b) => a + b
*** Add File: docs/notes.md
+# Notes
+
+add adds.
*** End Patch
`
	// A command has half a minute, which is the most: in an emulated machine it takes that.
	command := func(text string) step {
		return step{"exec_command", map[string]any{"cmd": text, "yield_time_ms": 30_000}}
	}
	api := &responsesAPI{last: "Fixed: add adds now.", steps: []step{
		command("node add.test.js; " + whoAmI),
		{"apply_patch", map[string]any{"*": patch}},
		command("node add.test.js && git add -A && git commit -qm 'add: add' && git status --short"),
		command(lookAround),
	}}
	w.net.handle("api.openai.com", api)
	w.args = append(w.args, "-e", "CODEX_API_KEY=sk-test-89ab")
	res := w.must("codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "add.js does not add. Fix it.")

	if got := strings.TrimSpace(res.stdout); got != api.last {
		t.Errorf("codex said %q, want %q; stderr: %s", got, api.last, res.stderr)
	}
	api.check(t, "Bearer sk-test-89ab")
	checkPayload(t, api.result(0))
	for i, want := range map[int]string{0: "WRONG", 1: "add.js", 2: "RIGHT"} {
		if !strings.Contains(api.result(i), want) {
			t.Errorf("step %d: %q does not tell %q", i, api.result(i), want)
		}
	}
	w.checkFixed()
	w.checkLookedAround(api.result(3), res)
	w.took = res.took
}

func (m *responsesAPI) result(i int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i >= len(m.results) {
		return fmt.Sprintf("(no result of step %d of %d; requests: %s)", i, len(m.steps), strings.Join(m.requests, ", "))
	}
	return m.results[i]
}

// check fails where the script was not played to its end, or with another key.
func (m *responsesAPI) check(t *testing.T, auth string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.results) != len(m.steps) {
		t.Errorf("%d of %d steps were done: %q", len(m.results), len(m.steps), m.results)
	}
	if !m.auth[auth] {
		t.Errorf("the API saw %v, want %s", m.auth, auth)
	}
	for _, p := range m.problems {
		t.Error(p)
	}
}
