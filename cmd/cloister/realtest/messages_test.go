package realtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A step is one turn of the scripted model: a tool call, or words that end it.
type step struct {
	tool  string
	input map[string]any
}

// messagesAPI is the Messages API with a model that follows a script. Where it
// stands it knows from the conversation that the agent sends, as a model does.
type messagesAPI struct {
	steps []step
	last  string // the words that end the conversation
	has   string // a tool that only the agent's main conversation offers
	// id and message name the tool call and the answer, where they tell something.
	id, message string

	mu       sync.Mutex
	results  []string // tool results, as sent back, by step
	requests []string // method and path of everything asked
	keys     map[string]bool
	body     []byte // of the last request that the model was asked
	problems []string
}

type messagesRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

type contentBlock struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	IsError bool            `json:"is_error"`
	Content json.RawMessage `json:"content"`
}

func (m *messagesAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, r.Method+" "+r.URL.Path)
	if m.keys == nil {
		m.keys = map[string]bool{}
	}
	m.keys[r.Header.Get("x-api-key")] = true
	if r.URL.Path != "/v1/messages" || r.Method != http.MethodPost {
		w.Header().Set("content-type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"type":"error","error":{"type":"not_found_error","message":"not here"}}`)
		return
	}
	var req messagesRequest
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil {
		m.problems = append(m.problems, err.Error())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := m.next(req, body)
	if req.Stream {
		m.stream(w, req.Model, answer)
		return
	}
	m.whole(w, req.Model, answer)
}

// next is the step that follows the conversation.
func (m *messagesAPI) next(req messagesRequest, body []byte) step {
	offers := false
	for _, t := range req.Tools {
		offers = offers || t.Name == m.has
	}
	if !offers {
		return step{} // a title, a topic, a probe of the quota
	}
	var results []string
	for _, msg := range req.Messages {
		var blocks []contentBlock
		if json.Unmarshal(msg.Content, &blocks) != nil {
			continue // plain text
		}
		for _, b := range blocks {
			if b.Type == "tool_result" {
				results = append(results, resultText(b))
			}
		}
	}
	m.body = body
	if len(results) > len(m.results) {
		m.results = results
	}
	if len(results) >= len(m.steps) {
		return step{}
	}
	return m.steps[len(results)]
}

func resultText(b contentBlock) string {
	var text string
	if json.Unmarshal(b.Content, &text) != nil {
		var parts []contentBlock
		if json.Unmarshal(b.Content, &parts) == nil {
			for _, p := range parts {
				text += p.Text
			}
		}
	}
	if b.IsError {
		text = "ERROR " + text
	}
	return text
}

func (m *messagesAPI) block(s step, n int) map[string]any {
	if s.tool == "" {
		return map[string]any{"type": "text", "text": m.last}
	}
	return map[string]any{"type": "tool_use", "id": cmp.Or(m.id, fmt.Sprintf("toolu_%04d", n)), "name": s.tool, "input": s.input}
}

func (m *messagesAPI) whole(w http.ResponseWriter, model string, s step) {
	w.Header().Set("content-type", "application/json")
	reason := "end_turn"
	if s.tool != "" {
		reason = "tool_use"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_reason": reason, "stop_sequence": nil,
		"content": []any{m.block(s, len(m.results))}, "usage": map[string]any{"input_tokens": 10, "output_tokens": 10},
	})
}

// stream answers by server-sent events, the input of a tool in pieces.
func (m *messagesAPI) stream(w http.ResponseWriter, model string, s step) {
	w.Header().Set("content-type", "text/event-stream; charset=utf-8")
	flusher, _ := w.(http.Flusher)
	send := func(kind string, v map[string]any) {
		v["type"] = kind
		text, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text)
		flusher.Flush()
	}
	send("message_start", map[string]any{"message": map[string]any{
		"id": cmp.Or(m.message, fmt.Sprintf("msg_%04d", len(m.results))), "type": "message", "role": "assistant", "model": model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 10, "output_tokens": 1},
	}})
	block, reason, kind, text := m.block(s, len(m.results)), "end_turn", "text_delta", m.last
	field := "text"
	if s.tool != "" {
		input, _ := json.Marshal(s.input)
		reason, kind, field, text = "tool_use", "input_json_delta", "partial_json", string(input)
		block["input"] = map[string]any{}
	} else {
		block["text"] = ""
	}
	send("content_block_start", map[string]any{"index": 0, "content_block": block})
	send("ping", map[string]any{})
	for len(text) > 0 {
		n := min(len(text), 40)
		send("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": kind, field: text[:n]}})
		text = text[n:]
	}
	send("content_block_stop", map[string]any{"index": 0})
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 20}})
	send("message_stop", map[string]any{})
}

// result is what the agent sent back for a step.
func (m *messagesAPI) result(i int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i >= len(m.results) {
		return fmt.Sprintf("(no result of step %d of %d; requests: %s)", i, len(m.steps), strings.Join(m.requests, ", "))
	}
	return m.results[i]
}

// check fails where the script was not played to its end, or with another key.
func (m *messagesAPI) check(t *testing.T, key string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.results) != len(m.steps) {
		t.Errorf("%d of %d steps were done: %q", len(m.results), len(m.steps), m.results)
	}
	if !m.keys[key] {
		t.Errorf("the API saw the keys %v, want %s", m.keys, key)
	}
	for _, p := range m.problems {
		t.Error(p)
	}
}

// lastRequest is what the model was asked last.
func (m *messagesAPI) lastRequest() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(m.body)
}
