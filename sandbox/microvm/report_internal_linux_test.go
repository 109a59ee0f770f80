package microvm

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/sandbox"
	"cloister/sandbox/microvm/wire"
)

// enclosure is one whose first process writes what it is given and ends when it has written it, or is
// closed. The box of this package is what is looked at.
type enclosure struct {
	sandbox.Box
	over chan struct{}
	once sync.Once
}

func (e *enclosure) Wait() (sandbox.Status, error) {
	<-e.over
	return sandbox.Status{}, nil
}

func (e *enclosure) Close() error {
	e.once.Do(func() { close(e.over) })
	return nil
}

// TestReports: whatever a guest has its monitor report, the run ends when the monitor does, and what is
// printed of it is a line of text.
func TestReports(t *testing.T) {
	long := "error " + strings.Repeat("x", wire.MaxLine+10) + "\n"
	for _, tt := range []struct{ name, text, begun, end string }{
		{"started many times", strings.Repeat("started\n", 50), "", "the machine's monitor ended"},
		{"started, then no command", "started\nexec 2\n", "", "the machine's monitor ended"},
		{"a line without an end", "started\n" + long, "", "token too long"},
		{"a line without an end, at once", long, "token too long", ""},
		{"no number", "started\nend x\n", "", "the machine's monitor ended"},
		{"a terminal's words", "error \x1b]0;evil\x07\x1b[2J\u202egood\n", "start microvm: ?]0;evil??[2J?good", ""},
		{"more words than a person reads", "error " + strings.Repeat("y", 1<<20) + "\n", strings.Repeat("y", mostSaid), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			e := &enclosure{over: make(chan struct{})}
			go func() {
				_, _ = w.WriteString(tt.text) // its reader may be gone
				w.Close()
				_ = e.Close()
			}()
			done := make(chan error, 1)
			go func() {
				b, err := begun(t.Context(), e, r, sandbox.Spec{Argv: []string{"true"}})
				if err == nil {
					_, end := b.Wait()
					err = fmt.Errorf("end: %w", errors.Join(end, errors.New("."))) // even without one
				}
				done <- err
			}()
			select {
			case err := <-done:
				text := err.Error()
				at, ended := strings.CutPrefix(text, "end: ")
				if want := tt.begun; want != "" && (ended || !strings.Contains(text, want)) {
					t.Errorf("%.200q, want %.200q", text, want)
				}
				if want := tt.end; want != "" && (!ended || !strings.Contains(at, want)) {
					t.Errorf("%.200q, want an end with %q", text, want)
				}
				if len(text) > mostSaid+200 || strings.ContainsAny(text, "\x1b\x07\u202e") {
					t.Errorf("%d bytes, %.200q", len(text), text)
				}
			case <-time.After(time.Minute):
				t.Error("it does not end")
			}
		})
	}
}
