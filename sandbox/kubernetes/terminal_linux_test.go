package kubernetes_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	"cloister/sandbox"
)

// TestDoubleTerminal: the command has a terminal of the caller's size, what is typed reaches it, and
// nothing of the command's end is on the screen.
func TestDoubleTerminal(t *testing.T) {
	w := build(t, true, running)
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 31, Cols: 97}); err != nil {
		t.Fatal(err)
	}
	s := sandbox.Spec{ID: "S1", Name: "one", Argv: []string{"sh", "-c", "stty size; read word; echo got $word; exit 7"}, Dir: "/", Network: true,
		Env: []string{"PATH=/usr/bin:/bin"}, User: sandbox.User{ID: user, Name: "agent", Home: "/home/agent"}}
	b, err := w.driver.Start(t.Context(), s, sandbox.Wiring{Stdin: slave, Stdout: slave, Stderr: slave,
		Arm: func(_ context.Context, g sandbox.Gate) error {
			g.Close()
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	screen := &screen{f: master}
	screen.until(t, "31 97")
	if _, err := io.WriteString(master, "hello\n"); err != nil {
		t.Error(err)
	}
	screen.until(t, "got hello")
	st, err := b.Wait()
	slave.Close()
	if err != nil || st.Code != 7 {
		t.Errorf("%+v, %v", st, err)
	}
	if strings.Contains(screen.text, "cloister-end") {
		t.Errorf("the end is on the screen: %q", screen.text)
	}
}

// screen is what was written to a terminal.
type screen struct {
	f    *os.File
	text string
}

func (s *screen) until(t *testing.T, want string) {
	t.Helper()
	buf := make([]byte, 4096)
	for !strings.Contains(s.text, want) {
		n, err := s.f.Read(buf)
		s.text += string(buf[:n])
		if err != nil {
			if want != "never" {
				t.Errorf("%q never came: %v\n%q", want, err, s.text)
			}
			return
		}
	}
}
