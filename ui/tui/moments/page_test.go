package moments_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/ui/tui/moments"
	"cloister/ui/tui/pen"

	"github.com/google/go-cmp/cmp"
)

// guardian is one that answers by what it is set to, and keeps what it was asked to do.
type guardian struct {
	spaces    []api.Workspace
	sessions  []api.SessionInfo
	records   []api.Record
	diff      api.WorkspaceDiff
	patch     string
	acted     api.WorkspaceActed
	fails     error // whatever it is asked
	lookFails error
	done      []string
}

func (g *guardian) as() moments.Guardian {
	return moments.Guardian{
		Spaces:  func() ([]api.Workspace, []api.SessionInfo, error) { return g.spaces, g.sessions, g.fails },
		Records: func(string) ([]api.Record, error) { return g.records, g.fails },
		Diff: func(_, _, _, path string) (api.WorkspaceDiff, error) {
			d := g.diff
			if path != "" {
				d.Patch = g.patch
			}
			return d, errors.Join(g.fails, g.lookFails)
		},
		Act: func(name, verb string, in api.WorkspaceAct) (api.WorkspaceActed, error) {
			g.done = append(g.done, fmt.Sprintf("%s %s %+v", verb, name, in))
			return g.acted, g.fails
		},
	}
}

// page is a page with its guardian, whose calls are answered at once.
type page struct {
	*moments.Model
	*guardian
	t *testing.T
}

func newPage(t *testing.T, g *guardian, w, h int) *page {
	t.Helper()
	p := &page{moments.New(g.as()), g, t}
	p.Resize(pen.Pen{Width: w}, h)
	p.Open("k")
	p.settle()
	return p
}

func (p *page) settle() {
	for do := p.Next(); do != nil; do = p.Next() {
		do()()
	}
}

func (p *page) press(keys ...string) {
	for _, k := range keys {
		p.Press(k)
		p.settle()
		p.Screen(noon)
	}
}

func (p *page) says(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if s := p.Screen(noon); !strings.Contains(s, text) {
			p.t.Errorf("the page does not say %q:\n%s", text, s)
		}
	}
}

func (p *page) did(want ...string) {
	p.t.Helper()
	var got []string
	for _, d := range p.done {
		got = append(got, strings.Join(strings.Fields(d)[:2], " "))
	}
	if d := cmp.Diff(want, got); d != "" {
		p.t.Errorf("what was done (-want +got):\n%s", d)
	}
	p.done = nil
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)

// sample is a stopped workspace with two checkpoints and two changes.
func sample() *guardian {
	return &guardian{
		spaces: []api.Workspace{{
			Name: "k", Project: "/p", Head: "two", Agent: "sh", Applied: []string{"a"},
			Checkpoints: []api.Checkpoint{
				{ID: "one", Time: noon.Add(-3 * time.Hour), Message: "first"},
				{ID: "two", Time: noon.Add(-time.Hour), Message: "before a turn: do it", Auto: true},
			},
		}},
		records: []api.Record{
			{Seq: 3, Time: noon.Add(-2 * time.Hour), Kind: "net.connect", Verdict: "deny", Resource: "evil:443"},
			{Seq: 2, Time: noon.Add(-2 * time.Hour), Kind: "net.connect", Verdict: "deny", Resource: "evil:443"},
			{Seq: 1, Time: noon.Add(-4 * time.Hour), Kind: "session.start", Verdict: "allow"},
		},
		diff: api.WorkspaceDiff{
			Digest:  "d",
			Changes: []api.Change{{Path: "a", Change: "modified", Kind: "file"}, {Path: "b", Change: "added", Kind: "file"}},
		},
		acted: api.WorkspaceActed{Said: "k@x", Checkpoint: &api.Checkpoint{ID: "x"}, Forks: []api.Fork{{Name: "k-1"}}},
	}
}

func TestMoments(t *testing.T) {
	p := newPage(t, sample(), 100, 24)
	p.says("now       stopped", "before the turn: do it", "(automatic)", "(goes on from here)", "net.connect deny evil:443 (2 times)",
		"a session began", "2 paths")
	p.press("end")
	p.says("no checkpoint was made before this")
	p.press("up", "s")
	p.says("there is no checkpoint before this one")
	p.press("home", "s")
	p.says("since two")
}

// Each act needs another key, and any but that one leaves it undone.
func TestConfirmed(t *testing.T) {
	p := newPage(t, sample(), 100, 24)
	for _, key := range []string{"a", "u"} {
		for _, no := range []string{"n", "esc", "enter", " ", "ctrl+c", key} {
			p.press(key, no)
			p.did()
			p.says("nothing was done")
		}
		p.press(key, "y")
		p.did(map[string]string{"a": "apply", "u": "undo"}[key] + " k")
	}
	p.press("r")
	p.says("choose a checkpoint")
	p.press("down", "r", "n")
	p.did()
	p.press("r", "y")
	p.did("restore k")
	p.press("c", "h", "i", "backspace", "enter")
	p.did("checkpoint k")
	p.press("f", "0", "enter")
	p.did()
	p.says("want a number from 1 to 20")
	p.press("f", "2", "enter", "g", "o", "enter")
	if len(p.done) != 1 || !strings.Contains(p.done[0], "Count:2 Prompt:go") {
		t.Errorf("fork: %q", p.done)
	}
}

// A discard is of what is chosen, and of all by the name alone.
func TestDiscard(t *testing.T) {
	p := newPage(t, sample(), 100, 24)
	p.press("down", "d")
	p.says("a discard is about now")
	p.press("up", "enter", "d")
	p.says("choose paths first")
	p.press(" ", "d", "y")
	if len(p.done) != 1 || !strings.Contains(p.done[0], "Paths:[a]") || !strings.Contains(p.done[0], "Digest:d") {
		t.Errorf("discard of one: %q", p.done)
	}
	p.done = nil
	p.press("d", "y", "enter")
	p.did()
	p.says("that is not its name")
	p.press("d", "k", "enter")
	p.did("discard k")
	p.spaces = nil
	p.press("g")
	p.says("no overlay workspace is kept", "k is not there any more")
}

// What the host may run or obey has a key of its own, once all of it was on the screen.
func TestHeld(t *testing.T) {
	g := sample()
	for i := range 60 {
		path := fmt.Sprintf("d%d/.envrc", i)
		g.diff.Changes = append(g.diff.Changes, api.Change{Path: path, Change: "added", Kind: "file"})
		g.diff.Held = append(g.diff.Held, api.Because{Path: path, Why: "direnv runs it"})
	}
	p := newPage(t, g, 80, 20)
	p.press("a", "y")
	p.says("nothing was done")
	p.press("a", "Y")
	p.says("page down first")
	p.press("Y", "pgdown", "pgdown", "Y")
	p.says("page down first")
	p.press("end", "Y")
	p.says("Bring 62 paths into")
	p.did()
	p.press("y")
	if len(p.done) != 1 || !strings.Contains(p.done[0], "AutoRun:true") || !strings.Contains(p.done[0], "d59/.envrc") {
		t.Errorf("apply: %q", p.done)
	}
	// Of chosen paths only what belongs to them.
	p.done = nil
	p.press("enter", " ", "a", "y")
	if len(p.done) != 1 || !strings.Contains(p.done[0], "AutoRun:false Paths:[a] Looked:[]") {
		t.Errorf("apply of one: %q", p.done)
	}
}

// A folder that is chosen brings what is in it, and the page says so.
func TestFolderIsChosen(t *testing.T) {
	g := sample()
	g.diff.Changes = []api.Change{{Path: "d", Change: "mode", Kind: "dir"}, {Path: "d/.envrc", Change: "added", Kind: "file"},
		{Path: "dd", Change: "added", Kind: "file"}, {Path: "e", From: "d/f", Change: "renamed", Kind: "file"}}
	g.diff.Held = []api.Because{{Path: "d/.envrc", Why: "direnv runs it"}, {Path: "dd", Why: "w"}, {Path: "d/f", Why: "v"}}
	p := newPage(t, g, 100, 24)
	p.press("enter", " ")
	p.says("4 paths, 3 chosen")
	p.press("a")
	p.says(`"d/.envrc"`, `"d/f"`, "obey these 2.")
	p.press("Y")
	p.says("Bring 3 of 4 paths into")
	p.press("n", "d")
	p.says("Give up 3 of 4 paths of k")
}

func TestRefusedAsItStands(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*guardian)
		key  string
		says string
	}{
		"a conflict":        {func(g *guardian) { g.diff.Conflicts = []api.Because{{Path: "a", Why: "w"}} }, "a", "1 in conflict"},
		"more than shown":   {func(g *guardian) { g.diff.More = 5 }, "a", "5 more than a page shows"},
		"not all listed":    {func(g *guardian) { g.diff.Unlisted = true }, "a", "more than a page shows"},
		"running, apply":    {func(g *guardian) { g.spaces[0].Running = true }, "a", "may change this meanwhile"},
		"running, discard":  {func(g *guardian) { g.spaces[0].Running = true }, "d", "stop it first"},
		"nothing different": {func(g *guardian) { g.diff.Changes = nil }, "a", "nothing is different"},
		"nothing applied":   {func(g *guardian) { g.spaces[0].Applied = nil }, "u", "nothing of it was applied"},
		"busy":              {func(g *guardian) { g.spaces[0].Busy = true }, "c", "a command changes it right now"},
		"unreadable":        {func(g *guardian) { g.spaces[0].Problem = "its layer is gone" }, "c", "it cannot be read: its layer is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			g := sample()
			c.set(g)
			p := newPage(t, g, 100, 24)
			p.press(c.key)
			p.says(c.says)
			p.press("y", "Y", "enter")
			p.did()
		})
	}
}

// A cloister of another kind says what applies to it.
func TestKinds(t *testing.T) {
	g := sample()
	for _, kind := range []string{"live", "scratch", "none", "overlay", "gated"} {
		g.sessions = append(g.sessions, api.SessionInfo{Name: "s-" + kind, Workspace: kind})
	}
	p := newPage(t, g, 100, 24)
	p.press("q", "down", "enter")
	p.says("s-live is live: what it writes is in the project at once")
	p.press("down", "enter")
	p.says("s-scratch is scratch: what it writes is gone when it ends")
	p.press("down", "enter")
	p.says("s-none has no project")
	p.press("down", "enter")
	p.says("s-overlay has written nothing yet")
	p.press("down", "enter")
	p.says("s-gated is gated: no moments of it are kept here")
	p.press("c", "y", "enter")
	p.did()
}

// What the guardian says no to is said, and asked for again later.
func TestLost(t *testing.T) {
	p := newPage(t, sample(), 100, 24)
	p.fails = &api.Error{Message: "it is gone", Hints: []string{"start it"}}
	p.press("a", "y")
	p.says("it is gone (start it)")
	p.press("g")
	p.says("it is gone")
	p.fails = nil
	p.Stale()
	p.Tick()
	p.settle()
	p.says("2 paths")
	p.fails = errors.New("no route")
	p.press("down")
	p.says("no route")
}

// No name and no text of a payload steers the terminal, breaks the screen or stands where a
// question stands, on whatever screen.
func TestHostile(t *testing.T) {
	const evil = "\x1b[2J\x1b]52;c;x\a\u202e\u200b\r\n\t\xff"
	g := sample()
	g.diff.Changes = nil
	for i := range 40 {
		name := fmt.Sprint(i, evil, strings.Repeat("長", 1300))
		g.diff.Changes = append(g.diff.Changes, api.Change{Path: name, From: name, Change: "renamed", Kind: "file"})
		g.diff.Held = append(g.diff.Held, api.Because{Path: name, Why: evil})
	}
	g.diff.More = 100_000
	g.patch = strings.Repeat("+"+strings.Repeat("y yes ", 20_000)+evil+"\n", 1)
	g.spaces[0].Checkpoints[0].Message, g.spaces[0].Applied = evil, []string{evil + strings.Repeat("? y yes ", 1000)}
	g.records[0].Resource = evil
	g.acted.Compared = &api.Comparison{Names: []string{"k"}, Paths: []api.ComparedPath{{Path: evil, Cells: []string{evil}}},
		Runs: []api.TestRun{{Last: []string{evil}}}}
	for _, size := range [][2]int{{100, 24}, {40, 12}, {20, 6}} {
		for _, ascii := range []bool{false, true}[:1+20/size[0]] {
			p := newPage(t, g, size[0], size[1])
			p.Resize(pen.Pen{Width: size[0], ASCII: ascii, Colourless: true}, size[1])
			for key := range strings.FieldsSeq("down enter enter end q down end home u n a n ? end x q = enter enter j q u") {
				p.press(key)
				s := p.Screen(noon)
				lines := strings.Split(s, "\n")
				if len(lines) != size[1] {
					t.Fatalf("%v after %s: %d lines", size, key, len(lines))
				}
				for _, bad := range []string{"\x1b[2J", "\x1b]", "\a", "\u202e", "\u200b", "\r", "\t", "\xff", "\x1b[33m"} {
					if strings.Contains(s, bad) {
						t.Fatalf("%v after %s: it holds %q", size, key, bad)
					}
				}
				for _, l := range lines {
					if n := len([]rune(strings.NewReplacer("\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[7m", "").Replace(l))); n > size[0] {
						t.Fatalf("%v after %s: a line of %d: %q", size, key, n, l)
					}
				}
			}
			if last := p.Screen(noon); !strings.Contains(last, "y yes   any other") || strings.Count(last, "\x1b[7m") > 5 {
				t.Errorf("%v: the question is not at the end:\n%s", size, last)
			}
			p.done = nil
		}
	}
}

// The largest look there is costs no more than a moment for each key.
func TestLarge(t *testing.T) {
	g := sample()
	for i := range 2000 {
		g.diff.Changes = append(g.diff.Changes, api.Change{Path: fmt.Sprint("p", i), Change: "added", Kind: "file"})
	}
	g.patch = strings.Repeat("+\n", 256<<10)
	p := newPage(t, g, 80, 24)
	p.press("enter", "enter", "end")
	if n := testing.AllocsPerRun(20, func() { p.Press("k"); p.Screen(noon) }); n > 2000 {
		t.Errorf("a key takes %.0f allocations", n)
	}
}

// A look that fails while a question is asked takes nothing from it, and no key answers one
// that was not on the screen yet.
func TestAskedMeanwhile(t *testing.T) {
	g := sample()
	g.diff.Held = []api.Because{{Path: "a", Why: "direnv runs it"}}
	p := newPage(t, g, 80, 20)
	p.press("a")
	p.spaces[0].Head, p.fails = "one", nil // it is looked at anew, and cannot be
	p.guardian.lookFails = errors.New("no route")
	p.Open("k")
	p.settle()
	p.says("I looked at each of them")
	p.press("Y")
	p.says("Bring 2 paths into")
	p.press("n", "q")
	p.did()

	p = newPage(t, sample(), 80, 20)
	for _, ahead := range []string{"uy", "cx\r", "dk\r", "ay"} {
		for _, key := range ahead {
			p.Press(map[rune]string{'\r': "enter"}[key] + strings.Trim(string(key), "\r"))
		}
		p.settle()
		p.did()
		p.says("typed before the question was on the screen")
		p.press("esc")
	}
}

// What is pasted is text where a text is typed, and presses nothing elsewhere.
func TestPasted(t *testing.T) {
	p := newPage(t, sample(), 80, 20)
	p.press(moments.Pasted + "ay")
	p.says("what is pasted presses no keys")
	p.press("a", moments.Pasted+"y")
	p.did()
	p.press("y")
	p.did("apply k")
	p.press("c", moments.Pasted+"it\nworks\r\x1b", "enter")
	if len(p.done) != 1 || !strings.Contains(p.done[0], "Message:it works \\x1b ") {
		t.Errorf("checkpoint: %q", p.done)
	}
}

// What goes on from the line before is not taken for a line of its own, and names that look
// alike do not hold up who walks through them.
func TestLookalikes(t *testing.T) {
	g := sample()
	g.diff.Changes = []api.Change{{Path: "a\ufffd", Change: "added"}, {Path: "a\ufffd", Change: "added"}, {Path: "z", Change: "added"}}
	g.patch = "+" + strings.Repeat("x", 37) + "-was there before\n"
	p := newPage(t, g, 40, 12)
	p.press("enter", "j", "enter")
	p.says("│ +xxx", "┆ -was there before")
	if s := p.Screen(noon); strings.Contains(s, "│ -was") || strings.Contains(s, string(pen.Red)) {
		t.Errorf("a part of a line looks like a line:\n%s", s)
	}
	// An agent says what its turn is: that is no word of the page's.
	p.spaces[0].Checkpoints[1].Message = "before a turn: x, 9 B  (goes on from here)" + strings.Repeat(" ", 90)
	p.spaces[0].Head = "one"
	p.Resize(pen.Pen{Width: 100}, 24)
	p.press("q", "q", "g")
	p.says("* two  0 B  (automatic)  before the turn: x, 9 B", "* one  0 B  (goes on from here)  first")
}
