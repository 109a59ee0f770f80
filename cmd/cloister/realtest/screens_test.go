package realtest

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// asItIs compares a screen letter by letter.
func asItIs(text string) string { return text }

// lasting is what Claude Code shows without the hints that it takes away again, and
// without the cursor that it draws itself while the terminal says that it has the focus.
func lasting(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, "/effort") {
			line = ""
		}
		if i := strings.Index(line, "to cycle)"); i >= 0 {
			line = line[:i]
		}
		out = append(out, strings.ReplaceAll(line, "\x1b[0;7m \x1b[0m", ""))
	}
	return strings.Join(out, "\n")
}

// figures are the numbers, the bars and the units of htop: with its load the colours and
// the blanks among them change too.
var figures = regexp.MustCompile(`((\x1b\[[0-9;]*m|[0-9|.% ])*[0-9|][KMGT]?)+(\x1b\[[0-9;]*m|[0-9|.% ])*`)

// digits is what htop shows without its figures.
func digits(text string) string { return figures.ReplaceAllString(text, "0") }

// TestScreens leaves programs that draw the whole screen and comes back to them:
// letters, colours, cursor and modes have to be there again, in any size, at a
// second terminal too, and the terminal is given back as it was.
func TestScreens(t *testing.T) {
	t.Run("vim", func(t *testing.T) {
		w := newWorld(t)
		need(t, "vim", "vim")
		var text strings.Builder
		for i := range 60 {
			fmt.Fprintf(&text, "int line_%d(void) { return %d; } /* naïve, 日本, ● */\n", i, i)
		}
		w.write(w.project, "story.c", text.String())
		s := w.watched("vim", "--agent", "vim", "--", "-N", "-u", "NONE", "-i", "NONE", "-n",
			"-c", "syntax on", "-c", "set number ruler mouse=a laststatus=2 background=dark", "story.c")
		s.shows("a", `line_10\(`)
		s.types("a", ":split | 30")
		s.keys("a", "O", "h", "e", "l", "l", "o", "C-v", "u", "2", "1", "9", "2")
		s.shows("a", `hello`)
		s.round(`hello`, asItIs)
		s.keys("a", "Escape")
		s.types("a", ":q!")
		s.types("a", ":q!")
		s.shows("a", `^\$ $|^\$$`)
		s.publish("screen-vim")
	})
	t.Run("htop", func(t *testing.T) {
		w := newWorld(t)
		need(t, "htop", "htop")
		s := w.watched("htop", "--agent", "htop", "--", "--delay=100", "--sort-key=PID")
		s.shows("a", `F10\s*Quit`)
		s.round(`F10\s*Quit`, digits)
		s.keys("a", "q")
		s.shows("a", `^\$ $|^\$$`)
		s.publish("screen-htop")
	})
	t.Run("claude", func(t *testing.T) {
		w := newWorld(t)
		w.agent("claude")
		need(t, "node", "node")
		w.wrongAdd()
		api := &messagesAPI{has: "Bash", last: "It subtracts: `a - b` should be `a + b`.", steps: []step{
			{"Bash", map[string]any{"command": "node add.test.js", "description": "Run the test"}},
			{"Read", map[string]any{"file_path": filepath.Join(w.project, "add.js")}},
		}}
		w.net.handle("api.anthropic.com", api)
		w.claudeHome(testKey, w.project)
		s := w.watched("claude", "--agent", "claude", "-e", "ANTHROPIC_API_KEY="+testKey)
		s.shows("a", `❯|>`)
		s.types("a", "What is wrong with add.js?")
		s.shows("a", `It subtracts`)
		s.round(`It subtracts`, lasting)
		s.types("a", "/exit")
		s.shows("a", `^\$ $|^\$$`)
		s.publish("screen-claude")
	})
}

const testKey = "sk-ant-test-0123456789012345678901234567890123"

// claudeHome answers what Claude Code asks once of a new person, in the private
// home of the project.
func (w *world) claudeHome(key string, folders ...string) {
	w.t.Helper()
	var projects []string
	for _, f := range folders {
		projects = append(projects, fmt.Sprintf(`%q: {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}`, f))
	}
	w.script(fmt.Sprintf(`mkdir -p ~/.claude; cat >~/.claude/settings.json <<'END'
{"skipDangerousModePermissionPrompt": true, "theme": "dark"}
END
cat >~/.claude.json <<'END'
{"hasCompletedOnboarding": true, "theme": "dark", "bypassPermissionsModeAccepted": true, "numStartups": 5,
 "customApiKeyResponses": {"approved": [%q], "rejected": []}, "projects": {%s}}
END
`, key[len(key)-20:], strings.Join(projects, ", ")))
}

// watched is one program at two terminals, a and b.
type watched struct {
	*desk
	name string
}

// watched starts a program at terminal a.
func (w *world) watched(name string, words ...string) *watched {
	w.t.Helper()
	w.configure()
	w.ran = true
	s := &watched{w.desk(), name}
	s.open("a", w.project, 100, 30)
	s.types("a", "cloister start --name "+name+" "+shellWords(words))
	return s
}

func shellWords(words []string) string {
	var out []string
	for _, word := range words {
		if strings.ContainsAny(word, " '|=$") {
			word = "'" + word + "'"
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// round leaves the program and comes back, in several sizes and at two terminals.
// It is known by a sign.
func (s *watched) round(sign string, mask func(string) string) {
	s.w.t.Helper()
	same := func(what string, want, got sight) {
		s.w.t.Helper()
		if diff := cmp.Diff(strings.Split(want.text, "\n"), strings.Split(got.text, "\n")); diff != "" {
			s.w.t.Errorf("%s: the screen is another (-before +after):\n%s", what, diff)
		}
		if want.state != got.state {
			s.w.t.Errorf("%s: the terminal is in another state:\n%s%s", what, want.state, got.state)
		}
	}
	first := s.settled("a", mask)
	s.keep("a", "attached, 100 by 30")

	s.detach("a")
	s.keep("a", "Ctrl-P Ctrl-Q: the terminal is given back")
	s.types("a", "clear; cloister attach "+s.name)
	s.shows("a", sign)
	same("attached again", first, s.settled("a", mask))
	s.keep("a", "attached again")

	s.size("a", 80, 20)
	small := s.settled("a", mask)
	s.keep("a", "the window is made smaller, 80 by 20")
	s.open("b", s.w.project, 80, 20)
	s.types("b", "cloister attach "+s.name)
	s.shows("b", sign)
	same("a second terminal of that size", small, s.settled("b", mask))
	s.detach("b")
	s.detach("a")

	s.size("a", 100, 30)
	s.types("a", "clear; cloister attach "+s.name)
	s.shows("a", sign)
	back := s.settled("a", mask)
	s.keep("a", "detached, made larger again, attached, 100 by 30")
	s.open("c", s.w.project, 100, 30)
	s.types("c", "cloister attach "+s.name)
	s.shows("c", sign)
	same("a third terminal", back, s.settled("c", mask))
	s.detach("c")
}
