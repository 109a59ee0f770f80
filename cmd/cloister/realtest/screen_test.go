package realtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A screen is a terminal of tmux, in which a person types.
type screen struct {
	w    *world
	tmux string
	name string
}

// screens starts tmux, whose terminals are of so many columns and lines.
func (w *world) screens() func(name string, columns, lines int) *screen {
	w.t.Helper()
	tmux := need(w.t, "tmux", "tmux")
	w.t.Cleanup(func() {
		c := exec.CommandContext(context.WithoutCancel(w.t.Context()), tmux, "-S", w.dir+"/tmux", "kill-server")
		_ = c.Run() // there may be none
	})
	w.write(w.home, "bin/cloister", "")
	if err := os.Remove(w.home + "/bin/cloister"); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(binary, w.home+"/bin/cloister"); err != nil {
		w.t.Fatal(err)
	}
	return func(name string, columns, lines int) *screen {
		w.t.Helper()
		s := &screen{w: w, tmux: tmux, name: name}
		s.do("new-session", "-d", "-s", name, "-x", fmt.Sprint(columns), "-y", fmt.Sprint(lines),
			"PATH="+w.home+"/bin:$PATH TERM=screen-256color PS1='$ ' exec sh -i")
		s.prompt()
		return s
	}
}

func (s *screen) do(words ...string) string {
	s.w.t.Helper()
	c := exec.CommandContext(s.w.t.Context(), s.tmux, append([]string{"-S", s.w.dir + "/tmux", "-f", "/dev/null"}, words...)...)
	c.Dir, c.Env = s.w.project, append(s.w.environ(), "TERM=xterm-256color")
	out, err := c.CombinedOutput()
	if err != nil {
		s.w.t.Fatalf("tmux %s: %v: %s", words[0], err, out)
	}
	return string(out)
}

// text is what stands on the screen, with what has left it at the top.
func (s *screen) text() string {
	s.w.t.Helper()
	return strings.TrimRight(s.do("capture-pane", "-p", "-J", "-S", "-", "-t", s.name), " \n")
}

// until waits for a text.
func (s *screen) until(text string) {
	s.w.t.Helper()
	s.wait(text, func() bool { return strings.Contains(s.text(), text) })
}

func (s *screen) wait(what string, is func() bool) {
	s.w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(storyTime); !is(); <-tick.C {
		if time.Now().After(deadline) {
			s.w.t.Fatalf("the screen %s never came to: %s; it shows\n%s", s.name, what, s.text())
		}
	}
}

// prompt waits for the shell.
func (s *screen) prompt() {
	s.w.t.Helper()
	s.wait("the prompt", func() bool { text := s.text(); return text == "$" || strings.HasSuffix(text, "\n$") })
}

// begin types a command, in pieces that no terminal's line is too short for.
func (s *screen) begin(command string) {
	s.w.t.Helper()
	before := s.text()
	s.press("-l", command)
	// From here on an empty prompt is the one after the command.
	s.wait("what was typed", func() bool { return s.text() != before })
	s.press("Enter")
}

func (s *screen) press(keys ...string) {
	s.w.t.Helper()
	s.do(append([]string{"send-keys", "-t", s.name}, keys...)...)
}

// keep writes what the screen shows to the folder of the captures, where one is
// wanted (script/captures): this world's folder is called /home/you there.
func (s *screen) keep(name string) string {
	s.w.t.Helper()
	text := s.text()
	if dir := os.Getenv("CLOISTER_CAPTURES"); dir != "" {
		shown := strings.NewReplacer(s.w.project, "/home/you/project", s.w.home, "/home/you", s.w.dir, "/home/you").Replace(strings.TrimSuffix(text, "\n$"))
		write(s.w.t, filepath.Join(dir, name+".txt"), shown+"\n", 0o644)
	}
	return text
}

const agentLine = "cloister run -e ANTHROPIC_API_KEY=sk-ant-test-0123 -- claude -p '" + askedOfTheAgent + "' --dangerously-skip-permissions"

// TestPersonAtTheScreen is the story answered in `cloister approvals watch`.
func TestPersonAtTheScreen(t *testing.T) {
	s := newStory(t)
	open := s.screens()
	watch, agent := open("watch", 100, 17), open("agent", 100, 50)
	watch.begin("cloister approvals watch")
	watch.until("nothing waits")
	agent.begin(agentLine)
	watch.until("push to " + s.url)
	watch.keep("screen-asked")
	// Nobody allows what they have not seen the end of.
	watch.press("a")
	watch.wait("a word why not", func() bool {
		return strings.Contains(watch.text(), "look, then answer") || strings.Contains(watch.text(), "page down first")
	})
	watch.page()
	watch.keep("screen-end")
	if got := s.host("git", "--git-dir="+filepath.Join(s.dir, "served/app.git"), "log", "-1", "--format=%s", "main"); got != "first\n" {
		t.Errorf("before the answer the server has %q", got)
	}
	// A key that comes too soon is dead; the person presses it again.
	watch.wait("an answer", func() bool {
		watch.press("a")
		return strings.Contains(watch.text(), "nothing waits")
	})
	agent.until(s.messages.last)
	agent.prompt()
	agent.begin("cloister audit tail --kind hostexec.request --json | sed -E " +
		`'s/.*"action":"([^"]*)","resource":"([^"]*)","verdict":"([^"]*)".*"digest":"(sha256:[0-9a-f]{12}).*/\1 \3 \4 \2/;t;d'`)
	agent.until("deny sha256:")
	agent.prompt()
	agent.keep("screen-agent")
	watch.press("h")
	watch.until("push to " + s.url)
	watch.page()
	watch.until("answered: allowed, once")
	watch.keep("screen-history")
	watch.press("q")
	watch.prompt()
	s.check(t)
}

// page goes to the end of a question.
func (s *screen) page() {
	s.w.t.Helper()
	s.wait("the last page", func() bool {
		if !strings.Contains(s.text(), "more lines: page down") {
			return true
		}
		s.press("Space")
		return false
	})
}

// TestPersonAtThePrompt is the same, answered by commands.
func TestPersonAtThePrompt(t *testing.T) {
	s := newStory(t)
	s.attended()
	open := s.screens()
	prompt, agent := open("prompt", 110, 60), open("agent", 100, 50)
	agent.begin(agentLine)
	q := s.question("push to " + s.url)
	if q.ID == "" {
		t.Fatal("no question came")
	}
	for _, command := range []string{"cloister approvals list", "cloister approvals show " + q.ID, "cloister approvals approve " + q.ID, "cloister approvals approve " + q.ID} {
		prompt.begin(command)
		prompt.prompt()
	}
	text := prompt.keep("prompt-answers")
	for _, want := range append(ofThePush, q.ID+" allowed: push to", "allowed already, by uid") {
		if !strings.Contains(text, want) {
			t.Errorf("the terminal does not show %s:\n%s", want, text)
		}
	}
	agent.until(s.messages.last)
	agent.prompt()
	s.check(t)
}
