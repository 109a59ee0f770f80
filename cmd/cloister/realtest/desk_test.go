package realtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"cloister/internal/vscreen"
)

// captures is where the stories that a person sees leave what the terminals
// showed; empty where nobody asked (script/screens does).
var captures = os.Getenv("CLOISTER_CAPTURES")

// A desk is a person's terminals: tmux draws them, and tells what they show.
type desk struct {
	w      *world
	socket string
	told   strings.Builder // what is kept for the documentation
}

func (w *world) desk() *desk {
	w.t.Helper()
	need(w.t, "tmux", "tmux")
	d := &desk{w: w, socket: filepath.Join(w.dir, "desk")}
	w.env["PATH"] = filepath.Dir(binary) + ":" + w.env["PATH"]
	w.t.Cleanup(func() {
		if w.t.Failed() {
			for name := range strings.FieldsSeq(d.try("list-sessions", "-F", "#{session_name}")) {
				w.t.Logf("the terminal %s shows\n%s", name, d.try("capture-pane", "-p", "-t", name))
			}
		}
		d.try("kill-server")
	})
	return d
}

// try is tmux with words; what it says where it fails is of no interest.
func (d *desk) try(words ...string) string {
	c := exec.CommandContext(d.w.t.Context(), "tmux", append([]string{"-S", d.socket, "-f", "/dev/null"}, words...)...)
	if d.w.t.Context().Err() != nil { // at the end of the test
		c = exec.Command("tmux", append([]string{"-S", d.socket, "-f", "/dev/null"}, words...)...) //nolint:forbidigo // it ends at once
	}
	c.Dir, c.Env = d.w.project, append(d.w.environ(), "SHELL=/bin/sh")
	out, _ := c.CombinedOutput()
	return string(out)
}

func (d *desk) tmux(words ...string) string {
	d.w.t.Helper()
	c := exec.CommandContext(d.w.t.Context(), "tmux", append([]string{"-S", d.socket, "-f", "/dev/null"}, words...)...)
	c.Dir, c.Env = d.w.project, append(d.w.environ(), "SHELL=/bin/sh")
	out, err := c.CombinedOutput()
	if err != nil {
		d.w.t.Fatalf("tmux %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// open is a new terminal with a shell in a folder.
func (d *desk) open(name, dir string, cols, rows int) {
	d.w.t.Helper()
	d.tmux("new-session", "-d", "-s", name, "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows), "-c", dir,
		"env -u TMUX -u TMUX_PANE TERM=screen-256color COLORTERM=truecolor 'PS1=$ ' sh -i")
	d.shows(name, `^\$`)
}

func (d *desk) size(name string, cols, rows int) {
	d.w.t.Helper()
	d.tmux("resize-window", "-t", name, "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows))
}

// types sends text and Enter, keys sends keys by tmux's names.
func (d *desk) types(name, text string) {
	d.w.t.Helper()
	d.tmux("send-keys", "-t", name, "-l", text)
	d.tmux("send-keys", "-t", name, "Enter")
}

func (d *desk) keys(name string, keys ...string) {
	d.w.t.Helper()
	d.tmux(append([]string{"send-keys", "-t", name}, keys...)...)
}

// detach types the two keys that leave, and waits for the shell.
func (d *desk) detach(name string) {
	d.w.t.Helper()
	d.keys(name, "C-p", "C-q")
	d.shows(name, `(?m)^detached from `)
}

// text is what a terminal shows.
func (d *desk) text(name string) string {
	d.w.t.Helper()
	lines := strings.Split(strings.TrimRight(d.tmux("capture-pane", "-p", "-t", name), "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

// shows waits until a terminal's text matches.
func (d *desk) shows(name, pattern string) {
	d.w.t.Helper()
	want := regexp.MustCompile("(?m)" + pattern)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(storyTime); time.Now().Before(deadline); <-tick.C {
		if want.MatchString(d.text(name)) {
			return
		}
	}
	d.w.t.Fatalf("the terminal %s does not show %q", name, pattern)
}

// A sight is all that a terminal shows: text with colours, the cursor, and the
// modes in which the program has put it.
type sight struct{ text, state string }

const terminalState = "cursor #{cursor_x},#{cursor_y} shown #{cursor_flag} alternate #{alternate_on} insert #{insert_flag} " +
	"keys #{keypad_cursor_flag}#{keypad_flag} mouse #{mouse_any_flag} wrap #{wrap_flag} origin #{origin_flag} region #{scroll_region_upper}-#{scroll_region_lower}"

func (d *desk) sight(name string) sight {
	d.w.t.Helper()
	return sight{d.text(name) + "\n" + coloured(d.tmux("capture-pane", "-p", "-e", "-t", name)), d.tmux("display-message", "-p", "-t", name, terminalState)}
}

// coloured writes each line of what tmux tells with its own colours: tmux tells
// changes, and blanks at the end of a line that nobody sees.
func coloured(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	s := vscreen.New(vscreen.Size{Cols: vscreen.MaxSide, Rows: len(lines)}, nil)
	s.Draw([]byte(strings.Join(lines, "\r\n")))
	for y := range lines {
		lines[y] = string(s.Line(y))
	}
	return strings.Join(lines, "\n")
}

// settled is what a terminal shows once it has been the same for a second, as
// masked makes it.
func (d *desk) settled(name string, masked func(string) string) sight {
	d.w.t.Helper()
	const looks = 10
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last, same := sight{}, 0
	for deadline := time.Now().Add(storyTime); time.Now().Before(deadline); <-tick.C {
		now := d.sight(name)
		now.text = masked(now.text)
		if now != last {
			last, same = now, 0
			continue
		}
		if same++; same == looks {
			return now
		}
	}
	d.w.t.Fatalf("the terminal %s never comes to rest", name)
	return last
}

// keep writes what a terminal shows into the documentation, under a line that
// says what was done.
func (d *desk) keep(name, what string) {
	d.w.t.Helper()
	if captures == "" {
		return
	}
	d.told.WriteString("--- " + what + "\n" + d.text(name) + "\n\n")
}

// note writes what a command printed into the documentation.
func (d *desk) note(what, text string) {
	if captures != "" {
		d.told.WriteString("--- " + what + "\n" + strings.TrimRight(text, "\n") + "\n\n")
	}
}

// publish ends one file of the documentation.
func (d *desk) publish(name string) {
	d.w.t.Helper()
	if captures != "" && !d.w.t.Failed() {
		write(d.w.t, filepath.Join(captures, name+".txt"), strings.TrimRight(d.told.String(), "\n")+"\n", 0o644)
	}
}
