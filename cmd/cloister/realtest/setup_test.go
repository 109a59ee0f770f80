package realtest

import (
	"context"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// modelsAPI lists its models to who has the key.
type modelsAPI struct {
	mu    sync.Mutex
	paths []string
}

func (m *modelsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.paths = append(m.paths, r.Method+" "+r.URL.Path+" "+r.Header.Get("anthropic-version"))
	m.mu.Unlock()
	if r.Header.Get("x-api-key") != canaryKey {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = w.Write([]byte(`{"data":[]}`))
}

// TestSetup: a credential is tried by one request through the border; a wrong one is
// named at once, and not by the agent's first words.
func TestSetup(t *testing.T) {
	w := newWorld(t)
	api := &modelsAPI{}
	w.net.handle("api.anthropic.com", api)
	w.configure()
	w.ran = true
	setup := func(key string, words ...string) (string, int) {
		ctx, cancel := context.WithTimeout(t.Context(), storyTime)
		defer cancel()
		c := exec.CommandContext(ctx, binary, append([]string{"setup", "claude"}, words...)...)
		c.Dir, c.Env, c.Stdin = w.project, w.environ(), strings.NewReader(key+"\n")
		out, _ := c.CombinedOutput() // the status says it
		return string(out), c.ProcessState.ExitCode()
	}
	out, status := setup("sk-ant-api03-" + strings.Repeat("x", 90))
	if status != 1 || !strings.Contains(out, "api.anthropic.com refuses the credential: 401") {
		t.Errorf("a wrong key: status %d, %s", status, out)
	}
	out, status = setup(canaryKey, "--no-try")
	if status != 0 || strings.Contains(out, "tried") {
		t.Errorf("--no-try: status %d, %s", status, out)
	}
	out, status = setup(canaryKey)
	if status != 0 || !strings.Contains(out, "tried: api.anthropic.com takes the credential") || strings.Contains(out, canaryKey) {
		t.Errorf("the right key: status %d, %s", status, out)
	}
	if t.Failed() {
		t.Log(read(t, w.env["XDG_STATE_HOME"]+"/cloister/logs/guardian.log"))
	}
	if got, want := strings.Join(api.paths, ", "), "GET /v1/models 2023-06-01, GET /v1/models 2023-06-01"; got != want {
		t.Errorf("the server saw %s, want %s", got, want)
	}
}
