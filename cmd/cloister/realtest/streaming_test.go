package realtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A slowModel answers in tokens, each of which it sends on its own, and knows when.
type slowModel struct {
	mu    sync.Mutex
	asked time.Time
	sent  []time.Time
}

const (
	tokens     = 20
	tokenEvery = 20 * time.Millisecond
)

func (m *slowModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := time.Now()
	var req messagesRequest
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path != "/v1/messages" || json.Unmarshal(body, &req) != nil || !req.Stream || len(req.Tools) == 0 {
		(&messagesAPI{}).ServeHTTP(w, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked, m.sent = asked, nil
	w.Header().Set("content-type", "text/event-stream; charset=utf-8")
	flush := http.NewResponseController(w)
	send := func(kind string, v map[string]any) {
		v["type"] = kind
		text, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text)
		_ = flush.Flush()
	}
	send("message_start", map[string]any{"message": map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": req.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 10, "output_tokens": 1},
	}})
	send("content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
	tick := time.NewTicker(tokenEvery)
	defer tick.Stop()
	for i := range tokens {
		<-tick.C
		m.sent = append(m.sent, time.Now())
		send("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": fmt.Sprintf("token%02d ", i)}})
	}
	send("content_block_stop", map[string]any{"index": 0})
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": map[string]any{"output_tokens": tokens}})
	send("message_stop", map[string]any{})
}

// A heard answer is when its tokens came out of the agent, after they were sent.
type heard struct {
	first time.Duration   // from the start of the agent to its first token
	own   time.Duration   // from its question to the first word of the answer, as it says
	after []time.Duration // of each token
}

// listen runs an agent and hears it.
func (m *slowModel) listen(t *testing.T, c *exec.Cmd) (h heard) {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	c.Stderr = &errs
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	came := make([]time.Time, 0, tokens)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), fmt.Sprintf(`"delta":{"text":"token%02d "`, len(came))) {
			came = append(came, time.Now())
		}
		var own struct {
			TTFT *float64 `json:"ttft_ms"`
		}
		if json.Unmarshal(lines.Bytes(), &own) == nil && own.TTFT != nil && h.own == 0 {
			h.own = time.Duration(*own.TTFT * float64(time.Millisecond))
		}
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", c, err, errs.String())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(came) != tokens || len(m.sent) != tokens {
		t.Fatalf("%d tokens came of %d sent: %s", len(came), len(m.sent), errs.String())
	}
	h.first = came[0].Sub(began)
	for i, at := range came {
		h.after = append(h.after, at.Sub(m.sent[i]))
	}
	return h
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// The real Claude Code hears its model through inspection token by token, as it does
// directly. CLOISTER_TEST_ROUNDS tells how often it is tried, for figures.
func TestClaudeCodeStreams(t *testing.T) {
	w := newWorld(t)
	claude := filepath.Join(w.agent("claude"), "bin/claude")
	need(t, "node", "node")
	model := &slowModel{}
	w.net.handle("api.anthropic.com", model)
	w.net.handle("localhost", model)
	w.rules = map[string][]string{
		"api.anthropic.com": {`{domain: api.anthropic.com, methods: [POST, GET, HEAD], paths: ["/v1/**"]}`},
		"localhost":         {`{domain: localhost}`},
	}
	w.outside = []string{"localhost"}
	w.must("true") // there is a guardian
	rounds, _ := strconv.Atoi(os.Getenv("CLOISTER_TEST_ROUNDS"))
	words := []string{"claude", "-p", "Hello", "--output-format", "stream-json", "--include-partial-messages", "--verbose", "--dangerously-skip-permissions"}
	quiet := []string{"ANTHROPIC_API_KEY=sk-ant-test-0123", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1"}
	_, port, _ := net.SplitHostPort(w.net.addr)
	type heardOften struct{ first, own, after []time.Duration }
	var direct, through heardOften
	add := func(to *heardOften, h heard) {
		to.first, to.own, to.after = append(to.first, h.first), append(to.own, h.own), append(to.after, h.after...)
	}
	round := func() {
		c := exec.CommandContext(t.Context(), claude, words[1:]...)
		c.Dir, c.Env = w.project, append(w.environ(), append(quiet, "ANTHROPIC_BASE_URL=https://localhost:"+port, "NODE_EXTRA_CA_CERTS="+w.net.caFile,
			"HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=localhost")...) // it reaches nothing else
		add(&direct, model.listen(t, c))

		args := []string{"run"}
		for _, e := range quiet {
			args = append(args, "-e", e)
		}
		c = exec.CommandContext(t.Context(), binary, append(append(args, "--"), words...)...)
		c.Dir, c.Env = w.project, w.environ()
		add(&through, model.listen(t, c))
	}
	for range max(1, rounds) {
		round()
	}
	// Whoever held an answer back would hold the first token for the time of all, every
	// time; a machine that does other things is late now and then.
	held := func() bool {
		return median(through.after) > median(direct.after)+tokens*tokenEvery/2
	}
	for again := 0; again < 2 && held(); again++ {
		t.Logf("once more, since a token took %v, and %v directly", median(through.after), median(direct.after))
		direct, through = heardOften{}, heardOften{}
		round()
	}
	t.Logf("time to first token, as claude says: %v directly, %v through; from its start: %v, %v; a token after it was sent: %v, %v",
		median(direct.own), median(through.own), median(direct.first), median(through.first), median(direct.after), median(through.after))
	if len(w.requests(200)) == 0 {
		t.Errorf("nothing was read:\n%s", w.journal())
	}
	if held() {
		t.Errorf("a token takes %v, and %v directly", median(through.after), median(direct.after))
	}
}
