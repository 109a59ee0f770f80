package realtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"cloister/api"
)

// turnsAPI is the Messages API with a model that knows what to do about each prompt. Where
// it stands it knows from the conversation alone, which it keeps: what an agent forgot, it
// was not asked again.
type turnsAPI struct {
	// ways are what to do about a prompt: the first conversation that comes with it gets the
	// first way, the next the second, and so on.
	ways map[string][][]step

	mu      sync.Mutex
	begun   map[string]int
	ended   map[string]map[int]bool // by way
	asked   map[string][]string     // bodies, by prompt
	keys    map[string]bool
	plain   messagesAPI // it writes the answers
	answers int
}

// ask is what the last words of a person in a conversation are, how many tools were used
// since, and by which way.
func (a *turnsAPI) ask(req messagesRequest) (prompt string, done, way int) {
	way = -1
	for _, msg := range req.Messages {
		var blocks []contentBlock
		if json.Unmarshal(msg.Content, &blocks) != nil {
			var text string
			_ = json.Unmarshal(msg.Content, &text) // or it is neither
			blocks = []contentBlock{{Type: "text", Text: text}}
		}
		for _, b := range blocks {
			switch {
			case b.Type == "tool_result":
				done++
			case b.Type == "text" && msg.Role == "user":
				for p := range a.ways {
					if strings.Contains(b.Text, p) {
						prompt, done, way = p, 0, -1
					}
				}
			}
		}
		var uses []struct {
			Type, ID string
		}
		if json.Unmarshal(msg.Content, &uses) == nil {
			for _, u := range uses {
				if u.Type == "tool_use" {
					_, _ = fmt.Sscanf(u.ID, "toolu_%d_", &way) // its own, or none
				}
			}
		}
	}
	return prompt, done, way
}

func (a *turnsAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys[r.Header.Get("x-api-key")] = true
	body, err := io.ReadAll(r.Body)
	var req messagesRequest
	if err != nil || r.URL.Path != "/v1/messages" || json.Unmarshal(body, &req) != nil {
		http.NotFound(w, r)
		return
	}
	a.answers++
	answer := step{}
	a.plain.last, a.plain.message = "Done.", fmt.Sprintf("msg_turn_%04d", a.answers)
	if slices.ContainsFunc(req.Tools, func(t struct {
		Name string `json:"name"`
	}) bool {
		return t.Name == "Write"
	}) {
		prompt, done, way := a.ask(req)
		a.asked[prompt] = append(a.asked[prompt], string(body))
		if prompt != "" && way < 0 {
			way = a.begun[prompt]
			a.begun[prompt]++
		}
		if ways := a.ways[prompt]; way >= 0 && way < len(ways) && done < len(ways[way]) {
			answer = ways[way][done]
			a.plain.id = fmt.Sprintf("toolu_%d_%s_%d", way, strings.Join(strings.Fields(prompt), "_"), done)
		} else if a.ended[prompt] == nil {
			a.ended[prompt] = map[int]bool{way: true}
		} else {
			a.ended[prompt][way] = true
		}
	}
	if req.Stream {
		a.plain.stream(w, req.Model, answer)
		return
	}
	a.plain.whole(w, req.Model, answer)
}

// over is how many conversations with a prompt had the last word.
func (a *turnsAPI) over(prompt string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ended[prompt])
}

// taken is how many conversations came with a prompt.
func (a *turnsAPI) taken(prompt string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun[prompt]
}

// bodies are what was asked with a prompt.
func (a *turnsAPI) bodies(prompt string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked[prompt])
}

const (
	turnOne, turnTwo, turnThree = "Write Sum", "Write a test of Sum", "Make Sum faster"
	turnFork                    = "Make it faster, and keep the test green"
)

const (
	sumPlain = "package sum\n\n// Sum adds all of them.\nfunc Sum(list []int) int {\n\ttotal := 0\n\tfor _, n := range list {\n\t\ttotal += n\n\t}\n\treturn total\n}\n"
	sumTest  = "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tfor n := range 9 {\n\t\tlist, want := []int{}, 0\n\t\tfor i := range n {\n\t\t\tlist, want = append(list, i), want+i\n\t\t}\n\t\tif got := Sum(list); got != want {\n\t\t\tt.Errorf(\"Sum(%v) = %d, want %d\", list, got, want)\n\t\t}\n\t}\n}\n"
	loop     = "\tfor _, n := range list {\n\t\ttotal += n\n\t}\n"
	byTwo    = "\tfor ; len(list) > 1; list = list[2:] {\n\t\ttotal += list[0] + list[1]\n\t}\n"
	theLast  = "\tif len(list) == 1 {\n\t\ttotal += list[0]\n\t}\n"
)

// A turned is a person who goes through time with a real agent: Claude Code in an overlay
// cloister, and a model that is a script.
type turned struct {
	*world
	api *turnsAPI
}

func newTurned(t *testing.T) *turned {
	t.Helper()
	w := newWorld(t)
	w.agent("claude")
	need(t, "node", "node")
	goProgram := need(t, "go", "go")
	w.env["PATH"] = filepath.Dir(goProgram) + ":" + w.env["PATH"]
	w.write(w.project, "go.mod", "module example.org/sum\n\ngo 1.26\n")
	w.write(w.project, "README.md", "# Sum\n\nIt adds.\n")
	w.host("git", "add", ".")
	w.host("git", "commit", "-qm", "start")
	at := func(name string) string { return filepath.Join(w.project, name) }
	edit := func(old, text string) []step {
		return []step{
			{"Read", map[string]any{"file_path": at("sum.go")}},
			{"Edit", map[string]any{"file_path": at("sum.go"), "old_string": old, "new_string": text}},
		}
	}
	s := &turned{w, &turnsAPI{
		begun: map[string]int{}, ended: map[string]map[int]bool{}, asked: map[string][]string{}, keys: map[string]bool{},
		ways: map[string][][]step{
			turnOne: {{{"Write", map[string]any{"file_path": at("sum.go"), "content": sumPlain}}}},
			turnTwo: {{{"Write", map[string]any{"file_path": at("sum_test.go"), "content": sumTest}},
				{"Bash", map[string]any{"command": "go test ./...", "description": "Run the tests", "timeout": 240_000}}}},
			turnThree: {append(edit(loop, byTwo), step{"Bash", map[string]any{"command": "rm sum_test.go", "description": "Make it pass"}})},
			turnFork:  {edit(loop, byTwo), edit(loop, byTwo+theLast), edit(loop, "\tfor range list {\n\t}\n")},
		},
	}}
	w.net.handle("api.anthropic.com", s.api)
	s.setUp("claude", canaryKey)
	return s
}

// turn is one of the agent's, which goes on with what it did before.
func (s *turned) turn(prompt string, more ...string) {
	s.t.Helper()
	words := append([]string{"run", "--workspace", "overlay", "--name", "k", "--", "claude", "--dangerously-skip-permissions"}, more...)
	if res := s.cloister(s.t.Context(), append(words, "-p", prompt)...); res.status != 0 {
		s.t.Fatalf("%s: status %d\n%s%s%s", prompt, res.status, res.stdout, res.stderr, s.journal())
	}
}

// do is a command of the person's that has to end with a status.
func (s *turned) do(status int, words ...string) string {
	s.t.Helper()
	res := s.cloister(s.t.Context(), words...)
	if res.status != status {
		s.t.Fatalf("cloister %s: status %d, want %d\n%s%s", strings.Join(words, " "), res.status, status, res.stdout, res.stderr)
	}
	return res.stdout
}

// ended waits until agents have had their answers to a prompt.
func (s *turned) ended(prompt string, count int) {
	s.t.Helper()
	waitFor(s.t, "the last answer to "+prompt, func() bool { return s.api.over(prompt) >= count })
}

// right is the fork whose files are the second way: which one that is, the model's order of
// conversations decides.
func (s *turned) right() string {
	s.t.Helper()
	for _, name := range []string{"k-1", "k-2", "k-3"} {
		if strings.Contains(s.do(0, "diff", name), "total += list[0]\n") {
			return name
		}
	}
	return ""
}

// before finds the automatic checkpoint of the moment before a turn.
func (s *turned) before(prompt string) string {
	s.t.Helper()
	var list []api.Checkpoint
	text := s.do(0, "checkpoints", "k", "--json")
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range list {
		if c.Auto && c.Message == "before a turn: "+prompt {
			return c.ID
		}
	}
	s.t.Fatalf("no checkpoint was made before the turn %q: %s", prompt, text)
	return ""
}

// remembers fails where a request of a prompt lacks words of the conversation before it.
func (s *turned) remembers(prompt string, count int, words ...string) {
	s.t.Helper()
	bodies := s.api.bodies(prompt)
	if len(bodies) < count {
		s.t.Fatalf("%q was asked %d times, want %d", prompt, len(bodies), count)
	}
	for i, body := range bodies {
		for _, word := range words {
			if !strings.Contains(body, word) {
				s.t.Errorf("request %d with %q does not tell of %q", i, prompt, word)
			}
		}
	}
}

// TestTurns goes through time with a real agent by the command line: three turns, back to
// the second, three forks, the tests decide, the winner is applied, and taken back.
func TestTurns(t *testing.T) {
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		t.Skip("six agents and their tests: CLOISTER_TEST_LONG=1")
	}
	s := newTurned(t)
	s.turn(turnOne)
	s.turn(turnTwo, "--continue")
	s.turn(turnThree, "--continue")
	s.remembers(turnThree, 4, turnOne, turnTwo)
	if text := s.do(0, "diff", "k", "--name-only"); text != "sum.go\n" {
		t.Errorf("after three turns: %s", text)
	}

	// Back to the second, with what the agent knew then.
	s.do(0, "restore", "k@"+s.before(turnThree))
	if text := s.do(0, "diff", "k", "--name-only"); text != "sum.go\nsum_test.go\n" {
		t.Errorf("back at the second turn: %s", text)
	}

	// Three ways on from there, each the same agent with the same words.
	s.do(0, "fork", "k", "--count", "3", "--", turnFork)
	s.ended(turnFork, 3)
	s.remembers(turnFork, 9, turnOne, turnTwo, "toolu_0_Write_a_test_of_Sum_0")
	for i, body := range s.api.bodies(turnFork) {
		if strings.Contains(body, turnThree) {
			t.Errorf("request %d of a fork tells of the turn that was taken back", i)
		}
	}
	s.stopAll()

	// The tests decide.
	var sides []struct {
		Name string
		Run  struct{ Status int }
	}
	text := s.do(0, "compare", "k-1", "k-2", "k-3", "--run", "go test ./...", "--json")
	if err := json.Unmarshal([]byte(text), &sides); err != nil {
		t.Fatal(err)
	}
	winner := ""
	for _, side := range sides {
		if side.Run.Status == 0 {
			winner += side.Name
		}
	}
	if want := s.right(); winner != want {
		t.Fatalf("%s passed, want %s: %s", winner, want, text)
	}
	s.do(0, "apply", winner)
	if out := s.host("go", "test", "./..."); !strings.Contains(out, "ok") || !strings.Contains(read(t, s.project+"/sum.go"), theLast) {
		t.Errorf("what was applied: %s", out)
	}
	s.do(0, "undo", winner)
	if out := s.host("git", "status", "--short"); out != "" {
		t.Errorf("after the undo: %s", out)
	}
	for _, name := range []string{"k", "k-1", "k-2", "k-3"} {
		s.do(0, "discard", name)
	}
}
