package realtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/internal/shellword"
)

// geminiAPI is the API of Gemini with a model that says one thing.
type geminiAPI struct {
	last string

	mu   sync.Mutex
	keys map[string]bool
}

func (m *geminiAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = map[string]bool{}
	}
	m.keys[r.Header.Get("x-goog-api-key")] = true
	body, _ := io.ReadAll(r.Body)
	text := m.last
	if strings.Contains(string(body), `"responseSchema"`) || strings.Contains(string(body), `"responseJsonSchema"`) {
		// It asks which model to ask.
		text = `{"complexity_reasoning":"simple","complexity_score":1,"reasoning":"simple","model_choice":"flash"}`
	}
	content := map[string]any{"role": "model", "parts": []any{map[string]any{"text": text}}}
	answer, _ := json.Marshal(map[string]any{
		"candidates":    []any{map[string]any{"content": content, "finishReason": "STOP", "index": 0}},
		"usageMetadata": map[string]any{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
	})
	switch {
	case strings.HasSuffix(r.URL.Path, ":streamGenerateContent"):
		w.Header().Set("content-type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", answer)
	case strings.HasSuffix(r.URL.Path, ":generateContent"):
		w.Header().Set("content-type", "application/json")
		_, _ = w.Write(answer)
	case strings.HasSuffix(r.URL.Path, ":countTokens"):
		w.Header().Set("content-type", "application/json")
		fmt.Fprint(w, `{"totalTokens":10}`)
	default:
		http.NotFound(w, r)
	}
}

// setUp gives an agent its key as a person would, once, and returns what was shown.
func (w *world) setUp(agent, key string) string {
	w.t.Helper()
	w.configure()
	w.ran = true
	ctx, cancel := context.WithTimeout(w.t.Context(), storyTime)
	defer cancel()
	c := exec.CommandContext(ctx, binary, "setup", agent)
	c.Dir, c.Env, c.Stdin = w.project, w.environ(), strings.NewReader(key+"\n")
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("setup %s: %v\n%s", agent, err, out)
	}
	return fmt.Sprintf("$ cloister setup %s <key\n%s", agent, out)
}

// dialogs are what agents ask a new person before they begin.
var dialogs = regexp.MustCompile(`(?i)choose the text style|select.*theme|custom api key|do you trust|security notes|` +
	`yes, i accept|sign in|log in|how would you like to auth|authentication method|trust this folder|welcome to codex`)

// watchDialogs looks at a terminal all the time until the function that it gives is
// called, and fails where a dialog came.
func (d *desk) watchDialogs(name string) (stop func()) {
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if text := d.try("capture-pane", "-p", "-t", name); dialogs.MatchString(text) {
				d.w.t.Errorf("the agent asks a new person:\n%s", text)
				return
			}
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() { close(ended); <-done }
}

// until presses keys again and again until a terminal shows what it should: an agent
// that is still drawing loses the first letter, and takes an Enter that comes close
// behind letters for a new line of what was pasted.
func (d *desk) until(name, pattern string, press func()) {
	d.w.t.Helper()
	want := regexp.MustCompile("(?m)" + pattern)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(storyTime); time.Now().Before(deadline); {
		press()
		for range 50 {
			if want.MatchString(d.text(name)) {
				return
			}
			<-tick.C
		}
	}
	d.w.t.Fatalf("the terminal %s does not show %q", name, pattern)
}

// ends presses Ctrl-C twice, which ends each of these agents when its prompt is empty,
// until the shell is back. An agent that is still drawing may lose keys, and takes two
// that come apart for two first ones: after a few tries the cloister is stopped from
// outside, since how an agent reads keys is not what is tested.
func (d *desk) ends(name string) {
	d.w.t.Helper()
	shell := regexp.MustCompile(`(?m)^\$ ?$`)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for try := range 5 {
		if try == 4 {
			d.w.stopAll()
		} else {
			d.keys(name, "C-c")
			<-time.After(300 * time.Millisecond)
			d.keys(name, "C-c")
		}
		for range 50 {
			if shell.MatchString(d.text(name)) {
				return
			}
			<-tick.C
		}
	}
	d.shows(name, `^\$ ?$`)
}

// TestFirstDay is a person's first day with an agent: a key, a start, a question, an
// answer; nothing else is asked. The same the second time, in the next project, and
// with another guardian.
func TestFirstDay(t *testing.T) {
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		t.Skip("twenty starts of five agents: CLOISTER_TEST_LONG=1")
	}
	const says = "Nothing is wrong with it."
	for _, c := range []struct {
		agent, host, key string
		api              http.Handler
		seen             func(http.Handler) map[string]bool
		headless         []string
		prompt           string // what its screen shows when it waits for words
		asks             string // hosts that it asks for, and no setting of its own stops
	}{
		{
			"claude", "api.anthropic.com", canaryKey, &messagesAPI{has: "Bash", last: says},
			func(h http.Handler) map[string]bool { return h.(*messagesAPI).keys },
			[]string{"-p", "What is wrong?"}, `^[❯>]`, `^$`,
		},
		{
			"codex", "api.openai.com", canaryOpenAI, &responsesAPI{last: says},
			func(h http.Handler) map[string]bool { return h.(*responsesAPI).auth },
			[]string{"exec", "What is wrong?"}, `^›`,
			`^raw\.githubusercontent\.com$`, // its line of the day
		},
		{
			"gemini", "generativelanguage.googleapis.com", "AIzaCanaryGeminiCanaryGeminiCanaryGem12", &geminiAPI{last: says},
			func(h http.Handler) map[string]bool { return h.(*geminiAPI).keys },
			[]string{"-p", "What is wrong?"}, `Type your message`, `^$`,
		},
		{
			"opencode", "api.anthropic.com", canaryKey, &messagesAPI{has: "bash", last: says},
			func(h http.Handler) map[string]bool { return h.(*messagesAPI).keys },
			[]string{"run", "What is wrong?"}, `Ask anything|┃`,
			`.`, // its plugins' package: the registry that this machine's npm is set to
		},
		{
			"copilot", "api.github.com api.individual.githubcopilot.com", canaryGitHub, &copilotAPI{model: &messagesAPI{has: "bash", last: says}},
			func(h http.Handler) map[string]bool { return h.(*copilotAPI).keys },
			[]string{"-s", "-p", "What is wrong?"}, `^❯`, `^$`,
		},
	} {
		t.Run(c.agent, func(t *testing.T) {
			w := newWorld(t)
			need(t, "node", "node")
			w.agent(c.agent)
			w.wrongAdd()
			for host := range strings.FieldsSeq(c.host) {
				w.net.handle(host, c.api)
			}
			w.opened()
			shown := w.setUp(c.agent, c.key)
			d := w.desk()
			d.note("a key is stored, once", shown)
			first := w.project
			times := []string{"the first start", "the second", "in the next project", "with another guardian"}
			for i, dir := range []string{first, first, w.repository("next"), first} {
				if i == 2 {
					w.project = dir
					w.host("git", "init", "-q", ".")
					w.project = first
				}
				if i == 3 {
					if res := w.cloister(t.Context(), "guardian", "stop"); res.status != 0 {
						t.Fatal(res.stderr)
					}
				}
				name := fmt.Sprintf("day%d", i)
				d.open(name, dir, 100, 30)
				stop := d.watchDialogs(name)
				d.types(name, "clear; cloister "+c.agent)
				d.shows(name, c.prompt)
				d.settled(name, lasting)
				d.keep(name, times[i]+": cloister "+c.agent)
				d.types(name, "What is wrong?")
				d.until(name, says, func() { d.keys(name, "Enter") })
				d.keep(name, times[i]+": asked and answered")
				d.ends(name)
				stop()
				d.keep(name, times[i]+": over")
			}
			w.project = first
			words := append([]string{c.agent}, c.headless...)
			for range 2 {
				res := w.cloister(t.Context(), words...)
				if res.status != 0 || !strings.Contains(res.stdout, says) || strings.Contains(res.stderr, "background") {
					t.Errorf("%s: status %d, %q, %q", strings.Join(words, " "), res.status, res.stdout, res.stderr)
				}
				d.note("without a terminal", fmt.Sprintf("$ cloister %s </dev/null\n%s", shellword.Line(words...), res.stdout))
			}
			d.publish("firstday-" + c.agent)
			for key := range c.seen(c.api) {
				if strings.TrimPrefix(key, "Bearer ") != c.key {
					t.Errorf("%s saw the key %q", c.host, key)
				}
			}
			for _, host := range w.refused() {
				if !regexp.MustCompile(c.asks).MatchString(host) {
					t.Errorf("%s asks for %s, which no rule allows", c.agent, host)
				}
			}
			w.checkFiles()
		})
	}
}
