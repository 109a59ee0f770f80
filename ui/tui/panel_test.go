package tui_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloister/api"
	"cloister/ui/tui"
	"cloister/ui/tui/moments"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// desk is a screen with what was answered on it.
type desk struct {
	*tui.Model
	got []string
}

func newDesk() *desk {
	d := &desk{}
	d.Model = tui.NewModel(func(id string, allow bool, r api.ApprovalReply) (string, error) {
		d.got = append(d.got, fmt.Sprintf("%s %t %s %s %t", id, allow, r.Scope, r.Pattern, r.Confirm))
		return "answered", nil
	}, nil)
	d.Resize(80, 24)
	return d
}

// press types keys, and does what they ask for.
func (d *desk) press(keys ...string) {
	for _, k := range keys {
		for _, key := range tui.Keys([]byte(k)) {
			if do, _ := d.Press(key); do != nil {
				d.Note(do())
			}
		}
	}
}

func question(id, title string) api.Approval {
	return api.Approval{
		ID: id, Session: "s", Kind: "network", Title: title, State: "pending", Reason: "no rule", Wildcard: "*.example.net:443",
		ExpiresAt: time.Now().Add(time.Minute), Details: []api.ApprovalDetail{{Label: "destination", Text: title}},
	}
}

func (d *desk) bring(list ...api.Approval) {
	for _, a := range list {
		d.Take(a)
	}
	time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock: the guard
}

func (d *desk) want(t *testing.T, what string, got ...string) {
	t.Helper()
	if strings.Join(d.got, "\n") != strings.Join(got, "\n") {
		t.Errorf("%s: answers %q, want %q", what, d.got, got)
	}
	d.got = nil
}

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.press("ad")
		d.want(t, "nothing waits")
		d.bring(question("1", "connect to a"), question("2", "connect to b"))
		d.press("a")
		d.want(t, "allow", "1 true once  false")
		d.press("jsd")
		d.want(t, "the second", "2 false session  false")
		// Wider than asked: remembered, and with a second key.
		d.press("wa")
		d.want(t, "a wildcard without a second key")
		d.press("x")
		d.press("y")
		d.want(t, "another key in between")
		d.press("ay")
		d.want(t, "a wildcard", "2 true session *.example.net:443 true")
		if s := d.Screen(); !strings.Contains(s, "for all of *.example.net:443") {
			t.Errorf("the screen does not say so:\n%s", s)
		}
	})
}

// A selection that moved by itself takes no answer for half a second.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.bring(question("1", "a"), question("2", "b"))
		over := question("1", "a")
		over.State = "expired"
		d.Take(over)
		d.press("ad")
		d.want(t, "at once")
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
		d.press("d")
		d.want(t, "after a look", "2 false once  false")
		// One that comes changes nothing under the finger.
		d.Take(question("0", "c"))
		d.press("d")
		d.want(t, "another came", "2 false once  false")
	})
}

// HX-17: what does not fit is not allowed unread.
func TestLongQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		q := question("1", "run on the host")
		for i := range 300 {
			q.Details = append(q.Details, api.ApprovalDetail{Label: fmt.Sprint("argument ", i), Text: strings.Repeat("x", 200)})
		}
		d.bring(q)
		d.press("a")
		d.want(t, "unread")
		if s := d.Screen(); !strings.Contains(s, "page down") {
			t.Errorf("the screen does not say why:\n%s", s)
		}
		d.press("d")
		d.want(t, "a deny needs no reading", "1 false once  false")
		d.press(strings.Repeat(" ", 200) + "a")
		d.want(t, "read", "1 true once  false")
	})
}

// HX-14, HX-15: nothing foreign steers the terminal, and it takes a second key.
func TestForeignText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		q := question("1", "connect\x1b]52;c;x\a to \u202eevil")
		q.Marks, q.Session = "characters that cannot be seen", "\x1b[2J"
		q.Details[0].Text = "a\rb\u200b"
		d.bring(q)
		s := d.Screen()
		for _, bad := range []string{"\x1b]52", "\u202e", "\x1b[2J", "\r", "\u200b"} {
			if strings.Contains(s, bad) {
				t.Errorf("the screen holds %q", bad)
			}
		}
		d.press("a")
		d.want(t, "one key")
		d.press("ay")
		d.want(t, "two keys", "1 true once  true")
	})
}

func TestFilterAndHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.bring(question("1", "connect to alpha"), question("2", "connect to beta"))
		d.press("/bet")
		d.press("\r")
		if s := d.Screen(); strings.Contains(s, "alpha") || !strings.Contains(s, "beta") {
			t.Errorf("filtered:\n%s", s)
		}
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
		d.press("d")
		d.want(t, "filtered", "2 false once  false")
		over := question("2", "connect to beta")
		over.State, over.By, over.Scope = "denied", "uid 0 via tui", "once"
		d.Take(over)
		d.press("h")
		if s := d.Screen(); !strings.Contains(s, "by uid 0 via tui") {
			t.Errorf("history:\n%s", s)
		}
		d.press("a")
		d.want(t, "in the history")
	})
}

func TestKeys(t *testing.T) {
	for sent, want := range map[string]string{
		"a": "a", "ü": "ü", "\x1b": "esc", "\x1b[A\x1bOB": "up down", "\x1b[5~\x1b[6~": "pgup pgdown",
		"\x03": "ctrl+c", "\r\x7f": "enter backspace", "\x1b[1;5Z": "", "\xff": "", "\x1b[": "", "ab": "a b",
	} {
		if got := strings.Join(tui.Keys([]byte(sent)), " "); got != want {
			t.Errorf("%q: %q, want %q", sent, got, want)
		}
	}
}

// noTime answers nothing, for as long as it may.
func noTime(ctx context.Context) moments.Guardian {
	return moments.Guardian{Spaces: func() ([]api.Workspace, []api.SessionInfo, error) {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}}
}

// Who leaves waits for no guardian that the page of time has asked.
func TestLeave(t *testing.T) {
	outer, inner, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	defer inner.Close()
	asked := make(chan struct{})
	of := func(ctx context.Context) moments.Guardian {
		g := noTime(ctx)
		blocks := g.Spaces
		g.Spaces = func() ([]api.Workspace, []api.SessionInfo, error) {
			close(asked)
			return blocks()
		}
		return g
	}
	go func() { _, _ = io.Copy(io.Discard, outer) }()
	done := make(chan error, 1)
	go func() { done <- tui.Panel{In: inner, Out: inner, Time: of, OnTime: true}.Run(t.Context()) }()
	<-asked
	fmt.Fprint(outer, "q")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A question stands over the page of time at once, and no key of that page answers it.
func TestOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{}
		d.Model = tui.NewModel(func(id string, _ bool, _ api.ApprovalReply) (string, error) {
			d.got = append(d.got, id)
			return "", nil
		}, moments.New(noTime(t.Context())))
		for _, size := range [][2]int{{80, 24}, {40, 12}, {20, 8}} {
			d.Resize(size[0], size[1])
			d.press("t")
			d.bring(question("1", "connect to a"), question("2", "connect to b"))
			d.press("adyY \r")
			d.want(t, "the page of time is in front")
			s := d.Screen()
			if n := strings.Count(s, "\n") + 1; n != size[1] || !strings.HasPrefix(s, "\x1b[7m! 2 questions") {
				t.Errorf("%v, %d lines:\n%s", size, n, s)
			}
			d.press("\ta")
			d.want(t, "what was about to be pressed")
			time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock: the guard
			d.press("d")
			d.want(t, "on their own page", "1")
		}
	})
}

// A real terminal: drawn, answered, and given back as it was.
func TestRun(t *testing.T) {
	outer, inner, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	defer inner.Close()
	if err := pty.Setsize(outer, &pty.Winsize{Rows: 24, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(inner.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	news := make(chan tui.News, 1)
	done := make(chan error, 1)
	go func() {
		done <- tui.Panel{In: inner, Out: inner, ASCII: true, News: news, Time: noTime,
			Answer: func(id string, allow bool, r api.ApprovalReply) (string, error) {
				got <- fmt.Sprint(id, allow, r.Scope)
				return "", nil
			}}.Run(t.Context())
	}()
	var screen strings.Builder
	until := func(what string) {
		t.Helper()
		buf := make([]byte, 4096)
		for !strings.Contains(screen.String(), what) {
			if err := outer.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			n, err := outer.Read(buf)
			if err != nil {
				t.Fatalf("%q did not come: %v\n%q", what, err, screen.String())
			}
			screen.Write(buf[:n])
		}
	}
	until("nothing waits")
	q := question("1", "connect to ö.example.net "+strings.Repeat("x", 50))
	news <- tui.News{Approval: &q}
	until("(1) cloister approvals")
	until("\a")
	time.Sleep(600 * time.Millisecond) //nolint:forbidigo // the guard, by the real clock
	fmt.Fprint(outer, "sd")
	if a := <-got; a != "1 false session" && a != "1falsesession" {
		t.Errorf("answer %q", a)
	}
	fmt.Fprint(outer, "q")
	until("\x1b[?1049l")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if all := screen.String(); strings.ContainsFunc(all, func(r rune) bool { return r > '~' }) || !strings.Contains(all, `\u00f6.example.net`) {
		t.Errorf("a terminal of ASCII alone is given %q", all)
	}
	after, err := term.GetState(int(inner.Fd()))
	if err != nil || fmt.Sprint(*after) != fmt.Sprint(*before) {
		t.Errorf("the terminal is not as it was: %v", err)
	}
}

// What is pasted presses no key, and what a terminal sends comes out the same in any pieces.
func TestPasted(t *testing.T) {
	const text = "x\x1b[200~a\rday\x03q\x1b[2\x1b[201~\x1b[A長\x1b[200~" + "end\x1b[201~y"
	want := []string{"x", "pasted a\rday\x03q\x1b[2", "up", "長", "pasted end", "y"}
	for n := 1; n <= len(text); n++ {
		if got := tui.KeysInPieces([]byte(text), n); !slices.Equal(got, want) {
			t.Fatalf("in pieces of %d: %q", n, got)
		}
	}
	if got := tui.KeysInPieces([]byte("\x1b[200~"+strings.Repeat("a", 1<<20)+"\x1b[201~"), 4096); len(got) != 1 || len(got[0]) > 5000 {
		t.Errorf("a large one is %d keys", len(got))
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.bring(question("1", "connect to a"))
		d.press("\x1b[200~a\rd\x1b[201~")
		d.want(t, "what was pasted")
		if s := d.Screen(); !strings.Contains(s, "what is pasted presses no keys") {
			t.Errorf("it does not say why:\n%s", s)
		}
		d.press("/\x1b[200~no\nsuch\x1b[201~")
		if s := d.Screen(); !strings.Contains(s, "filter: no such") {
			t.Errorf("the filter is not what was pasted:\n%s", s)
		}
	})
}
