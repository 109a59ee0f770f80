package tui

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"cloister/api"
	"cloister/ui/tui/moments"

	"golang.org/x/term"
)

// News is what a panel is brought: a question, or words for the status line.
type News struct {
	Approval *api.Approval
	Note     string
}

// A Panel is the screen with what it is run with.
type Panel struct {
	In, Out    *os.File
	ASCII      bool // the terminal shows no other letters
	Colourless bool
	Resized    <-chan os.Signal // it has another size
	News       <-chan News
	Stale      <-chan struct{} // the page of time is out of date; it is looked at each second
	Answer     Answer
	// Time is what the page of time asks; what it is at ends with the context.
	Time func(context.Context) moments.Guardian
	// OnTime begins with the page of time: of the workspace Name, "" for their list.
	OnTime bool
	Name   string
}

// Terminal codes: another screen without wrapping, on which what is pasted comes between two
// marks, and back; the top left corner; what clears a line.
const (
	enter     = "\x1b[?1049h\x1b[?7l\x1b[?25l\x1b[?2004h"
	back      = "\x1b[?2004l\x1b[?25h\x1b[?7h\x1b[?1049l"
	home      = "\x1b[H"
	clearLine = "\x1b[2K"
	// ring is the bell, and what terminals make a desktop notification of. Its
	// words are ours alone.
	ring = "\a\x1b]9;cloister: a question waits\a"
)

// Run shows the screen on a terminal until the person leaves, or ctx ends.
func (p Panel) Run(ctx context.Context) error {
	old, err := term.MakeRaw(int(p.In.Fd()))
	if err != nil {
		return fmt.Errorf("watch approvals: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	m := NewModel(p.Answer, moments.New(p.Time(ctx)))
	m.pen.ASCII, m.pen.Colourless = p.ASCII, p.Colourless
	if p.OnTime {
		m.Open(p.Name)
	}
	fmt.Fprint(p.Out, enter)
	defer func() {
		fmt.Fprint(p.Out, title("")+back)
		_ = term.Restore(int(p.In.Fd()), old) // the terminal may be gone
	}()
	var aside sync.WaitGroup
	defer aside.Wait()
	defer stop()
	pressed := make(chan []string)
	// It is not waited for: a read of a terminal cannot be called back.
	go read(ctx, p.In, pressed)
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	done := make(chan func())
	begin := func(do moments.Do) {
		aside.Go(func() {
			is := do()
			select {
			case done <- is:
			case <-ctx.Done():
			}
		})
	}
	for {
		for do := m.time.Next(); do != nil; do = m.time.Next() {
			begin(do)
		}
		m.draw(p.Out)
		select {
		case <-ctx.Done():
			return nil
		case keys, open := <-pressed:
			if !open {
				return nil
			}
			// What came at once is pressed at once, on what was on the screen.
			for _, key := range keys {
				do, leave := m.Press(key)
				if leave {
					return nil
				}
				if do != nil {
					begin(func() func() {
						text := do()
						return func() { m.Note(text) }
					})
				}
			}
		case is := <-done:
			is()
			m.settle()
		case n := <-p.News:
			if m.bring(n) {
				fmt.Fprint(p.Out, ring)
			}
		case now := <-clock.C:
			select {
			case <-p.Stale:
				m.time.Stale()
			default:
			}
			m.Tick(now)
		case <-p.Resized:
		}
	}
}

// bring takes news, and reports whether a person should be notified of it.
func (m *Model) bring(n News) (ring bool) {
	if n.Approval != nil {
		ring = m.Take(*n.Approval)
	}
	if n.Note != "" {
		m.Note(n.Note)
	}
	return ring
}

func title(text string) string { return "\x1b]2;" + text + "\x1b\\" }

func (m *Model) draw(out *os.File) {
	if w, h, err := term.GetSize(int(out.Fd())); err == nil {
		m.Resize(w, h)
	}
	// Each line is cleared before it is written: after a full one the cursor still
	// stands on its last place, and would clear that.
	fmt.Fprint(out, title(m.Title())+home+clearLine+strings.ReplaceAll(m.Screen(), "\n", "\r\n"+clearLine))
}

// read turns what a terminal sends into keys, until it ends.
func read(ctx context.Context, in *os.File, pressed chan<- []string) {
	defer close(pressed)
	var d decoder
	buf := make([]byte, 4096)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		select {
		case pressed <- d.keys(buf[:n], n == len(buf)):
		case <-ctx.Done():
			return
		}
	}
}
