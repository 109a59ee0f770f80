package terminal_test

import (
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/session/terminal"
)

// question is one that a line can hold.
func question(id, host string) api.Approval {
	return api.Approval{ID: id, Nonce: "n" + id, Kind: "network", Title: "connect to " + host}
}

// flat is a screen's text without lines and attributes.
func flat(s string) string {
	return strings.NewReplacer("\n", "", "\x1b[0;7m", "", "\x1b[7m", "", "\x1b[0m", "").Replace(s)
}

func (w *person) seesFlat(text string) {
	w.t.Helper()
	w.sees(text, func(s string) bool { return strings.Contains(flat(s), text) })
}

// answered waits for the answer that was given.
func (p *program) answered(want terminal.Reply) {
	p.t.Helper()
	select {
	case got := <-p.answers:
		if got != want {
			p.t.Errorf("answered %+v, want %+v", got, want)
		}
	case <-time.After(20 * time.Second):
		p.t.Fatal("no answer was given")
	}
}

// TestAskedInPlace: the question lies over the program's screen, a key behind Ctrl-P
// answers it, and the program's screen is as if it had not been there.
func TestAskedInPlace(t *testing.T) {
	for _, c := range []struct{ name, before string }{
		{"a plain screen", ``},
		{"the alternate screen", `printf '\033[?1049h\033[H'; `},
		{"a region that scrolls", `printf '\033[2;8r\033[H'; `},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := run(t, small, "sh", "-c", c.before+`stty -echo; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "line $i"; done; `+
				`printf 'name: '; read a; printf "%s\n" "got $a"; echo more; printf 'again: '; read b; echo "got $b"; read c`)
			w := p.attach(small)
			w.seesText("name:")
			before := w.shown()
			p.asked <- terminal.AskedOf([]api.Approval{question("q1", "example.com:443"), question("q2", "two.example:443")})
			w.seesFlat("(1 of 2) cloister asks: connect to example.com:443")
			w.seesText("name:") // what is typed stays in sight
			w.types("\x10a")    // too soon
			w.seesFlat("just now")
			<-time.After(600 * time.Millisecond)
			w.types("\x10a")
			p.answered(terminal.Reply{ID: "q1", Nonce: "nq1", Allow: true})
			p.asked <- terminal.AskedOf([]api.Approval{question("q2", "two.example:443")})
			w.seesFlat("two.example")
			w.types("hello\n") // the program goes on beneath
			w.seesText("again:")
			<-time.After(600 * time.Millisecond)
			w.types("\x10d")
			p.answered(terminal.Reply{ID: "q2", Nonce: "nq2"})
			p.asked <- terminal.AskedOf(nil)
			w.sees("no question", func(s string) bool {
				return !strings.Contains(s, "cloister asks") && strings.Contains(s, "got hello\nmore\nagain:")
			})
			second := p.attach(small)
			second.seesText("again:")
			if got, want := w.shown(), second.shown(); got != want {
				t.Errorf("its screen is\n%s\nand another's\n%s\nbefore it was\n%s", got, want, before)
			}
			second.types("\x10\x11")
			second.leaves()
			w.types("plain\n")
			w.seesText("got plain") // no key of an answer reached the program
			w.types("\x10\x11")
			w.leaves()
			p.cmd.Process.Kill()
			p.end(0)
		})
	}
}

// TestAskedElsewhere: what a line cannot show whole is not allowed by a key.
func TestAskedElsewhere(t *testing.T) {
	p := run(t, small, "sh", "-c", "read a; read b")
	w := p.attach(small)
	command := question("c1", "x")
	command.Kind = "hostexec"
	marked := question("m1", "exаmple.com:443") // a Cyrillic letter
	long := question("l1", strings.Repeat("very-long-label.", 12)+"example:443")
	for _, q := range []api.Approval{command, marked, long} {
		p.asked <- terminal.AskedOf([]api.Approval{q})
		w.seesFlat("cloister approvals show " + q.ID)
		<-time.After(600 * time.Millisecond)
		w.types("\x10a")
		w.seesFlat("not from here")
		w.types("\x10d")
		p.answered(terminal.Reply{ID: q.ID, Nonce: q.Nonce})
	}
	w.types("\x10\x11")
	w.leaves()
	p.cmd.Process.Kill()
	p.end(0)
}

// TestNote: a note lies over the screen until a key is pressed, which the program gets,
// or until a question takes its place; the program's screen is as if it had not been there.
func TestNote(t *testing.T) {
	p := run(t, small, "sh", "-c", `stty -echo; printf 'name: '; read a; echo "got $a"; printf 'again: '; read b`)
	w := p.attach(small)
	w.seesText("name:")
	p.hub.Note("cloister: .git/config is protected \x1b[2J")
	w.seesFlat("cloister: .git/config is protected ?[2J")
	w.seesText("name:")
	w.types("\x10a") // no question: both keys are the program's
	w.sees("no note", func(s string) bool { return !strings.Contains(flat(s), "protected") })
	w.types("\x7f\x7fhello\n")
	w.seesText("again:")
	p.hub.Note("cloister: second")
	w.seesFlat("cloister: second")
	p.asked <- terminal.AskedOf([]api.Approval{question("q1", "example.com:443")})
	w.seesFlat("cloister asks: connect to example.com:443")
	p.asked <- terminal.AskedOf(nil)
	w.sees("neither", func(s string) bool { return !strings.Contains(s, "cloister") && strings.Contains(s, "again:") })
	second := p.attach(small)
	second.seesText("again:")
	if got, want := w.shown(), second.shown(); got != want {
		t.Errorf("its screen is\n%s\nand another's\n%s", got, want)
	}
	second.types("\x10\x11")
	second.leaves()
	w.types("\x10\x11")
	w.leaves()
	p.cmd.Process.Kill()
	p.end(0)
}
