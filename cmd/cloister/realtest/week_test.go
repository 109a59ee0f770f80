package realtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// halfway is what each agent's command prints in the middle of its work. The
// agents type it in two parts, so that it stands in no request before.
const halfway = "HALFWAY-THERE"

// A pause is an API that waits, once an agent is halfway, until it is let go on:
// time to detach, and to kill.
type pause struct {
	api     http.Handler
	reached chan struct{} // closed when the agent waits
	once    sync.Once
	goOn    chan struct{}
}

func newPause(api http.Handler) *pause {
	return &pause{api: api, reached: make(chan struct{}), goOn: make(chan struct{})}
}

func (p *pause) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // it has gone
	}
	if bytes.Contains(body, []byte(halfway)) {
		p.once.Do(func() { close(p.reached) })
		select {
		case <-p.goOn:
		case <-r.Context().Done():
			return
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.api.ServeHTTP(w, r)
}

// byKey gives each agent its own script, by the key that it shows.
type byKey map[string]http.Handler

func (b byKey) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := b[r.Header.Get("x-api-key")]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	http.Error(w, "whose key is this?", http.StatusUnauthorized)
}

// A worker is one of the agents.
type worker struct {
	name, branch string
	dir          string // the repository
	file         string // that it makes
	tool         string // of its own, that runs commands
	flags        string // of cloister start
	words        string // behind --
	prompt       string // typed into it, where it is not among the words
	pause        *pause
}

func (a *worker) first() string {
	return fmt.Sprintf("echo 'by %s' >%s && printf 'HALFWAY-%%s\\n' THERE", a.name, a.file)
}

func (a *worker) second() string {
	return fmt.Sprintf("git add %s && git commit -qm 'add %[1]s' && git log --format=%%s -1", a.file)
}

func (a *worker) last() string { return "Committed " + a.file + "." }

// script is what the model says to it.
func (a *worker) script() http.Handler {
	if a.tool == "exec_command" {
		return &responsesAPI{last: a.last(), steps: []step{
			{a.tool, map[string]any{"cmd": a.first()}}, {a.tool, map[string]any{"cmd": a.second()}},
		}}
	}
	return &messagesAPI{has: a.tool, last: a.last(), steps: []step{
		{a.tool, map[string]any{"command": a.first(), "description": "Write " + a.file}},
		{a.tool, map[string]any{"command": a.second(), "description": "Commit " + a.file}},
	}}
}

// TestWeek is two repositories, three branches and four agents: started, left,
// their guardian killed, found again, their work committed, stopped, nothing left.
func TestWeek(t *testing.T) {
	if os.Getenv("CLOISTER_TEST_LONG") == "" {
		t.Skip("takes long: CLOISTER_TEST_LONG=1")
	}
	w := newWorld(t)
	t.Cleanup(w.stopAll)
	w.agent("claude")
	w.agent("codex")
	w.agent("opencode")
	need(t, "node", "node")
	shop, site := w.repository("shop"), w.repository("site")
	for _, dir := range []string{shop, site} {
		w.project = dir
		w.host("git", "init", "-q", ".")
		w.write(dir, "README.md", "# "+filepath.Base(dir)+"\n")
		w.host("git", "add", ".")
		w.host("git", "commit", "-qm", "start")
	}
	key := func(who string) string { return "sk-ant-test-" + strings.Repeat(who+"-", 8) + "0" }
	all := []*worker{
		{name: "cart", branch: "main", dir: shop, file: "cart.js", tool: "Bash", flags: "--agent claude -e ANTHROPIC_API_KEY=" + key("cart"), prompt: "Write cart.js and commit it."},
		{name: "price", branch: "feature/prices", dir: shop, file: "price.js", tool: "exec_command", flags: "-b feature/prices --agent codex -e CODEX_API_KEY=sk-test-89ab", words: "exec 'Write price.js and commit it.'"},
		{name: "index", branch: "main", dir: site, file: "index.html", tool: "bash", flags: "--agent opencode -e ANTHROPIC_API_KEY=" + key("index"), words: "run --model anthropic/claude-sonnet-4-5 'Write index.html and commit it.'"},
		{name: "style", branch: "main", dir: site, file: "style.css", tool: "Bash", flags: "--agent claude -e ANTHROPIC_API_KEY=" + key("style"), prompt: "Write style.css and commit it."},
	}
	messages := byKey{}
	for _, a := range all {
		a.pause = newPause(a.script())
		if a.tool == "exec_command" {
			w.net.handle("api.openai.com", a.pause)
		} else {
			messages[key(a.name)] = a.pause
		}
	}
	w.net.handle("api.anthropic.com", messages)
	w.settings = "agents:\n  opencode: {env: {OPENCODE_DISABLE_MODELS_FETCH: \"1\", OPENCODE_PERMISSION: '{\"*\":\"allow\"}'}}\n"
	w.project = shop
	w.claudeHome(key("cart"), shop)
	w.project = site
	w.claudeHome(key("style"), site)

	d := w.desk()
	for _, a := range all {
		d.open(a.name, a.dir, 120, 24)
		line := "cloister start --name " + a.name + " " + a.flags
		if a.words != "" {
			line += " -- " + a.words
		}
		d.types(a.name, line)
		if a.prompt != "" {
			d.shows(a.name, `❯`)
			d.types(a.name, a.prompt)
		}
	}
	for _, a := range all {
		wait(t, a.name+" is halfway", a.pause.reached)
	}
	for _, a := range all {
		d.keep(a.name, fmt.Sprintf("%s, at work on %s of %s", a.name, a.branch, filepath.Base(a.dir)))
		d.detach(a.name)
	}
	d.types("cart", "clear; cloister list")
	d.shows("cart", `^style .*running`)
	d.keep("cart", "all four are left; Ctrl-P Ctrl-Q each")

	w.killed = true
	d.types("cart", "clear; kill -9 "+strconv.Itoa(w.guardianPID())+"; cloister list")
	d.shows("cart", `another takes them over`) // before that it is the old one that answers
	d.shows("cart", `^style .*running`)
	w.checkRunning(all)
	d.keep("cart", "the guardian is killed; cloister list starts another, which takes the cloisters over")

	for _, a := range all {
		close(a.pause.goOn)
		d.types(a.name, "clear; cloister attach "+a.name)
	}
	for _, a := range all {
		if a.prompt == "" {
			d.shows(a.name, `^\$ ?$`) // it ends by itself when it has done its work
			continue
		}
		d.shows(a.name, "Committed "+a.file)
	}
	for _, a := range all {
		d.keep(a.name, a.name+", attached again")
	}
	for _, a := range all {
		w.project = a.dir
		if got, want := w.host("git", "log", "--format=%s %an", "-1", a.branch, "--", a.file), "add "+a.file+" Ada Person\n"; got != want {
			t.Errorf("%s: git log tells %q, want %q", a.name, got, want)
		}
		if got := w.host("git", "show", a.branch+":"+a.file); got != "by "+a.name+"\n" {
			t.Errorf("%s: %s holds %q", a.name, a.file, got)
		}
	}
	d.detach("cart")
	d.types("cart", "clear; cloister stop --all; cloister list -a; git log --oneline --all; cloister worktree list; git status --short")
	d.shows("cart", `^feature/prices `)
	d.keep("cart", "stopped, and what is there")
	d.types("cart", "clear; cloister guardian stop; ps -u $(id -u) -o stat=,comm= | grep -v ^Z | grep -c cloister; grep -c cloister /proc/mounts; git status --short; echo end")
	d.shows("cart", `^end$`)
	d.keep("cart", "of processes and mounts nothing is left, and no file in the project")
	d.publish("week")
	if got := w.host("git", "status", "--short"); got != "" {
		t.Errorf("git status: %q", got)
	}
}

// wait waits for something that another goroutine closes.
func wait(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(storyTime):
		t.Fatalf("%s: waited for in vain", what)
	}
}

// guardianPID is the guardian's process.
func (w *world) guardianPID() int {
	w.t.Helper()
	var status struct{ PID int }
	w.json(&status, "guardian", "status", "--json")
	if status.PID == 0 {
		w.t.Fatal("no guardian")
	}
	return status.PID
}

// checkRunning waits until a guardian shows all of them as running again.
func (w *world) checkRunning(all []*worker) {
	w.t.Helper()
	waitFor(w.t, "four that run", func() bool {
		var list []struct{ Name, State string }
		w.json(&list, "list", "--json")
		running := 0
		for _, s := range list {
			if s.State == "running" {
				running++
			}
		}
		return running == len(all)
	})
}

// json reads what cloister prints.
func (w *world) json(into any, words ...string) {
	w.t.Helper()
	res := w.cloister(w.t.Context(), words...)
	if err := json.Unmarshal([]byte(res.stdout), into); err != nil {
		w.t.Errorf("cloister %s: %v: %s%s", strings.Join(words, " "), err, res.stdout, res.stderr)
	}
}
