//go:build linux

package webtest

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/internal/vscreen"

	"github.com/creack/pty"
)

// A panel is the real panel in a real terminal, with what that shows.
type panel struct {
	t    *testing.T
	tty  *os.File
	done chan error

	mu     sync.Mutex
	screen *vscreen.Screen
	raw    []byte // the end of what was written
}

// panel opens the terminal's panel with a command.
func (w *world) panel(cols, rows int, words ...string) *panel {
	w.t.Helper()
	cmd := w.command(words...)
	cmd.SysProcAttr = nil // pty makes it the leader of a session
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(rows), Cols: uint16(cols)})
	if err != nil {
		w.t.Fatal(err)
	}
	p := &panel{t: w.t, tty: tty, done: make(chan error, 1),
		screen: vscreen.New(vscreen.Size{Cols: cols, Rows: rows}, func([]byte) {})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 32<<10)
		for {
			n, err := tty.Read(buf)
			p.mu.Lock()
			p.screen.Draw(buf[:n])
			p.raw = append(p.raw, buf[:n]...)
			p.raw = p.raw[max(0, len(p.raw)-1<<20):]
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() { p.done <- cmd.Wait() }()
	w.t.Cleanup(func() {
		_ = tty.Close() // it hangs up
		<-read
	})
	return p
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// shows is what the screen shows, line by line.
func (p *panel) shows() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for y := range p.screen.Size().Rows {
		out = append(out, strings.TrimRight(colours.ReplaceAllString(string(p.screen.Line(y)), ""), " "))
	}
	return out
}

// says waits until the screen has each of some texts.
func (p *panel) says(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		began, tick := time.Now(), time.NewTicker(10*time.Millisecond)
		for !strings.Contains(strings.Join(p.shows(), "\n"), text) {
			if time.Since(began) > patience {
				tick.Stop()
				p.t.Fatalf("the screen does not say %q:\n%s", text, strings.Join(p.shows(), "\n"))
			}
			<-tick.C
		}
		tick.Stop()
	}
}

// press types keys.
func (p *panel) press(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.tty, keys); err != nil {
		p.t.Fatal(err)
	}
}

// ask presses a key until its question is asked, and answers it: what changed meanwhile is
// looked at first.
func (p *panel) ask(key, question, answer string) {
	p.t.Helper()
	p.press(key)
	eventually(p.t, "the question "+question, func() bool {
		s := strings.Join(p.shows(), "\n")
		if strings.Contains(s, question) {
			return true
		}
		if strings.Contains(s, "this is still being looked at") {
			p.press(key)
		}
		return false
	})
	p.press(answer)
}

// selected is the line that is selected.
func (p *panel) selected() string {
	for _, l := range p.shows() {
		if strings.HasPrefix(l, "> ") {
			return l
		}
	}
	return ""
}

// choose moves from the top down to the line that has a text.
func (p *panel) choose(text string) {
	p.t.Helper()
	p.says(text)
	p.press("\x1b[H")
	eventually(p.t, "the first line is selected", func() bool { return strings.HasPrefix(p.selected(), "> now") })
	for !strings.Contains(p.selected(), text) {
		was := p.selected()
		p.press("j")
		eventually(p.t, "another line is selected", func() bool { l := p.selected(); return l != "" && l != was })
	}
}

// TestTimeByKeys goes from three turns back to the second and on from there in three ways at
// once, has a command compare them, applies the one that passes, and takes it back: in a
// terminal, by keys alone.
func TestTimeByKeys(t *testing.T) {
	w := newWorld(t)
	w.write("home/project/turn.sh", turnScript)
	w.write("home/project/trial.sh", trialScript)
	w.write("home/project/test.sh", testScript)
	w.write("home/project/answer", "none\n")
	turn := func(word string) {
		t.Helper()
		w.do("run", "--workspace", "overlay", "--name", "k", "--agent", "sh", "--", "sh", "turn.sh", word)
	}
	answer := func(want string) {
		t.Helper()
		eventually(t, "the answer is "+want, func() bool {
			text, err := os.ReadFile(filepath.Join(w.project, "answer"))
			return err == nil && strings.TrimSpace(string(text)) == want
		})
	}
	turn("one")
	p := w.panel(100, 24, "checkpoints", "--watch", "k")
	p.says("now       stopped", "M +1 -1", "answer", "c checkpoint  r restore")
	p.ask("c", "What is it?", "first turn\r")
	p.says("kept: k@", "first turn")
	turn("two") // the panel hears of it
	p.ask("c", "What is it?", "second turn\r")
	p.says("second turn")
	turn("three")
	p.ask("c", "What is it?", "third turn\r")
	p.says("third turn")

	// What a moment has, and what came since the one before.
	p.choose("second turn")
	p.press("s")
	p.says("since ")
	p.press("\r")
	p.says("space choose", "2 paths")
	p.press("\r")
	p.says("│ answer", "│ -none", "│ +two")
	p.press("qqs")

	// Another key than the one that is asked for does nothing.
	p.choose("second turn")
	w.picture(p, "moments")
	p.ask("r", "Make k what it was at", "n")
	p.says("nothing was done")
	p.ask("r", "Make k what it was at", "y")
	p.says("it is k@", "; what was there before is", "restored")
	if got := w.do("diff", "k"); !strings.Contains(got, "+two") {
		t.Errorf("restored to the second, it has %s", got)
	}

	// Three ways on from there, and which is right.
	p.ask("f", "How many?", "3\r")
	p.says("What does sh go on with in each?")
	p.press("trial.sh\r")
	p.says("made: k-1, k-2, k-3")
	eventually(t, "the agents have ended", func() bool { return !strings.Contains(w.do("list"), "k-") })
	p.press("g=")
	p.says("[x] k-1", "[x] k-2", "[x] k-3", "[ ] k")
	p.press("\r")
	p.says("A command of a shell")
	p.press("sh test.sh\r")
	p.says("1 k-1   exit 1, ", "2 k-2   exit 0, ", "3 k-3   exit 1, ", "│ the answer is: right", "│ the answer is: wrong", "│ answer")
	w.picture(p, "compare")

	// The one that passes goes into the project, and out again.
	p.press("2")
	p.says("cloister time   k-2", "A", "talk")
	p.ask("a", "Bring 2 paths into", "y")
	p.says("applied: 2 files; u takes that back", "applied to the project")
	answer("right")
	p.ask("u", "Take the last apply back:", "y")
	p.says("taken back")
	answer("none")

	// One path alone; the others stay.
	p.press("\r")
	p.says("space choose", "2 paths", "talk") // what is left to apply was looked at again
	p.press(" ")
	p.says("1 chosen")
	p.ask("a", "Bring 1 of 2 paths into", "y")
	p.says("applied: 1 file;")
	answer("right")
	if _, err := os.Stat(filepath.Join(w.project, "talk")); err == nil {
		t.Error("a path came over that was not chosen")
	}

	// The whole is given up by its name alone.
	p.ask("d", "Give up all of k-2 with its", "k-1\r")
	p.says("that is not its name")
	p.ask("d", "Give up all of k-2 with its", "k-2\r")
	p.says("k-2 is not there any more")
	if list := w.do("checkpoints", "k-1"); !strings.Contains(list, "fork") {
		t.Errorf("k-1 has %s", list)
	}
	p.press("q")
	if err := <-p.done; err != nil {
		t.Error(err)
	}
	for _, kind := range []string{"state.checkpoint", "state.restore", "state.fork", "state.apply", "state.undo"} {
		if out := w.do("audit", "tail", "--json", "--kind", kind); out == "" {
			t.Errorf("no %s is recorded", kind)
		}
	}
}

// picture holds what docs/time.md shows of the panel to what a terminal shows, but for ids,
// times and sizes. CLOISTER_WRITE_PICTURES has them written beside it.
func (w *world) picture(p *panel, name string) {
	w.t.Helper()
	lines := p.shows()
	if dir := os.Getenv("CLOISTER_WRITE_PICTURES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile("../../../docs/time.md")
	if err != nil {
		return // an ordinary user's run has no sources
	}
	there := map[string]bool{}
	for l := range strings.Lines(string(text)) {
		there[evened(strings.TrimPrefix(strings.TrimRight(l, "\n"), "    "))] = true
	}
	for _, l := range lines {
		if l = evened(l); (strings.HasPrefix(l, "> ") || strings.HasPrefix(l, "│ ")) && !there[l] {
			w.t.Errorf("docs/time.md does not have the line %q of the panel", l)
		}
	}
}

var (
	anyTime = regexp.MustCompile(`\d\d:\d\d:\d\d`)
	anyID   = regexp.MustCompile(`\* [a-z0-9]{8}`)
	anySize = regexp.MustCompile(`[0-9.]+ (B|KiB|MiB)`)
)

func evened(l string) string {
	return anySize.ReplaceAllString(anyID.ReplaceAllString(anyTime.ReplaceAllString(l, "TIME"), "* ID"), "SIZE")
}

// hostileScript makes names and texts that would steer a terminal, forge a question, or be
// more than a page shows.
const hostileScript = `
printf 'x\033[2J\033]52;c;eA==\007\n' >"$(printf 'a\033[2Jb')"
: >"$(printf 'line\nbreak')"
: >"$(printf 'rtl\342\200\256gpj.exe')"
: >' y yes   any other key: no'
: >"$(printf 'bad\377')"
: >"$(head -c 250 /dev/zero | tr '\0' n)"
printf 'y yes\n> now\nBring 1 path into\n' >forged
echo 'export A=2' >.envrc
i=0; while [ $i -lt 2100 ]; do : >many$i; i=$((i+1)); done
`

// TestHostileTime: what a payload wrote steers no terminal and answers no question, a question
// of its network stands over the page at once, and none of its keys answers that.
func TestHostileTime(t *testing.T) {
	w := newWorld(t)
	config, err := os.ReadFile(w.path("c/cloister/config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// A question waits as long as all of this may take.
	w.write("c/cloister/config.yaml", strings.Replace(string(config), "approval_timeout: 50s", "approval_timeout: 10m", 1))
	w.do("run", "--workspace", "overlay", "--name", "h", "--", "sh", "-c", hostileScript)
	p := w.panel(80, 24, "checkpoints", "--watch")
	p.says("h             overlay   stopped")
	p.press("\r")
	p.says("of which 2000 are shown", "that the host may run or obey (*)")
	p.press("a")
	p.says("more than a page shows")
	p.press("\r")
	p.says("space choose", `a\x1b[2Jb`, `bad`)
	p.press("\x1b[F")
	p.says("many9", "> ")
	eventually(t, "the end is reached", func() bool { return strings.Contains(p.selected(), " many") })
	p.press("\x1b[H")
	p.says(" y yes   any other key: no")
	eventually(t, "the first is selected", func() bool { return strings.Contains(p.selected(), " y yes") })
	for !strings.Contains(p.selected(), ".envrc") {
		was := p.selected()
		p.press("j")
		eventually(t, "another line is selected", func() bool { l := p.selected(); return l != "" && l != was })
	}
	p.says("│ held: ")
	p.press(" ")
	p.says("1 chosen")
	p.ask("a", "I looked at each of them: Y", "y")
	p.says("nothing was done")
	p.ask("a", "I looked at each of them: Y", "Y")
	p.ask("", "Bring 1 of", "n")
	p.says("nothing was done")
	if text, err := os.ReadFile(filepath.Join(w.project, ".envrc")); err != nil || strings.Contains(string(text), "A=2") {
		t.Errorf("it was brought over: %q, %v", text, err)
	}

	// A question comes while another one is open here: it stands on top, and Y is none's answer.
	p.ask("a", "I looked at each of them: Y", "Y")
	p.says("Bring 1 of")
	run := w.begin("run", "--name", "asker", "--", "sh", "-c", "curl -s -m 600 http://one.ask.example/ || echo refused")
	p.says("! 1 question waits: Tab shows it", "one.ask.example", "Bring 1 of")
	p.press("y")
	p.says("applied: 1 file;", "! 1 question waits: Tab shows it")
	if n := w.reached("one.ask.example"); n != 0 {
		t.Errorf("%d requests got through", n)
	}
	// As small as it gets, it still is on top.
	p.resize(40, 12)
	p.says("! 1 question waits: Tab shows it", "c r f = a d u s", "?   q back")
	p.press("?")
	p.says("! 1 question waits: Tab shows it", "any other key goes back")
	p.press("x")
	p.press("\t")
	p.says("cloister approvals   1 waiting")
	eventually(t, "the answer is taken", func() bool { p.press("  a"); return w.reached("one.ask.example") > 0 })
	run()

	p.press("t")
	p.says("cloister time")
	p.resize(100, 30)
	p.press("\x1b[F")
	p.says("> ", "no checkpoint was made before this")
	// The guardian goes, and the panel starts the next.
	w.do("guardian", "stop")
	p.says("watching")
	p.press("\x1b[H")
	p.says("> now       stopped", "of which 2000 are shown")
	p.press("\x03")
	if err := <-p.done; err != nil {
		t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, bad := range []string{"\x1b[2J", "\x1b]52", "\u202e", "\xff"} {
		if strings.Contains(string(p.raw), bad) {
			t.Errorf("the terminal was given %q", bad)
		}
	}
}

// resize makes the terminal another size.
func (p *panel) resize(cols, rows int) {
	p.t.Helper()
	p.mu.Lock()
	p.screen.Resize(vscreen.Size{Cols: cols, Rows: rows})
	p.mu.Unlock()
	if err := pty.Setsize(p.tty, &pty.Winsize{Rows: uint16(rows), Cols: uint16(cols)}); err != nil {
		p.t.Fatal(err)
	}
}
