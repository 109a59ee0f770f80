package realtest

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/api"
)

// lastBody is the last request that the model was asked.
func (m *responsesAPI) lastBody() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.body
}

// TestCodexTurns has the real Codex take two turns: the checkpoint before each is there, with
// what it was asked, and a fork of the first moment goes on with the conversation of then.
func TestCodexTurns(t *testing.T) {
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		t.Skip("three starts of an agent: CLOISTER_TEST_LONG=1")
	}
	w := newWorld(t)
	t.Cleanup(w.stopAll)
	need(t, "node", "node")
	w.agent("codex")
	w.wrongAdd()
	api := &responsesAPI{last: "Nothing is wrong with it."}
	w.net.handle("api.openai.com", api)
	w.opened()
	w.setUp("codex", canaryOpenAI)
	do := func(words ...string) string {
		t.Helper()
		res := w.cloister(t.Context(), words...)
		if res.status != 0 {
			t.Fatalf("cloister %s: status %d\n%s%s%s", strings.Join(words, " "), res.status, res.stdout, res.stderr, w.journal())
		}
		return res.stdout
	}
	const first, second, other = "What is wrong?", "Are you sure?", "Look once more"
	start := []string{"start", "--workspace", "overlay", "--name", "k", "--agent", "codex", "--", "exec"}
	do(append(start, first)...)
	do(append(start, "resume", "--last", second)...)
	if body := api.lastBody(); !strings.Contains(body, first) || !strings.Contains(body, second) {
		t.Errorf("the second turn does not tell of the first: %.300s", body)
	}
	before := ""
	for _, prompt := range []string{first, second} {
		list := checkpoints(t, do("checkpoints", "k", "--json"))
		i := slices.IndexFunc(list, ofTurn(prompt))
		if i < 0 {
			t.Fatalf("no checkpoint was made before the turn %q: %v", prompt, list)
		}
		before = list[i].ID
	}
	do("fork", "k@"+before, "--", other)
	waitFor(t, "a turn of the fork", func() bool { return strings.Contains(api.lastBody(), other) })
	if body := api.lastBody(); !strings.Contains(body, first) || strings.Contains(body, second) {
		t.Errorf("the fork does not go on from before the second turn: %.3000s", body)
	}
	w.stopAll()
	do("discard", "k")
	do("discard", "k-1")
}

func checkpoints(t *testing.T, text string) (list []api.Checkpoint) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return list
}

// ofTurn finds the checkpoint before a turn.
func ofTurn(prompt string) func(api.Checkpoint) bool {
	return func(c api.Checkpoint) bool { return c.Auto && c.Message == "before a turn: "+prompt }
}
