package machinetest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// lookWithin bounds the wait for one thing that a running command does.
const lookWithin = 3 * time.Minute

// screen is the person's side of a terminal with a program in it.
type screen struct {
	t    *testing.T
	c    *exec.Cmd
	to   *os.File
	text string // what came and was not looked for yet: two lines may come at once
}

func (w *world) screen(t *testing.T, words ...string) *screen {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), within)
	t.Cleanup(stop)
	s := &screen{t: t, c: w.command(ctx, words...)}
	var err error
	if s.to, err = pty.StartWithSize(s.c, &pty.Winsize{Rows: 31, Cols: 97}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.to.Close() })
	return s
}

func (s *screen) until(want string) (before string) {
	s.t.Helper()
	if err := s.to.SetReadDeadline(time.Now().Add(lookWithin)); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 32<<10)
	for !strings.Contains(s.text, want) {
		n, err := s.to.Read(buf)
		s.text += string(buf[:n])
		if err != nil {
			s.t.Fatalf("%.400q, %v: want %q", s.text, err, want)
		}
	}
	before, s.text, _ = strings.Cut(s.text, want)
	return before
}

func (s *screen) say(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.to, text); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the program's end, which comes with the command's.
func (s *screen) ends(status int) {
	s.t.Helper()
	if err := s.to.SetReadDeadline(time.Now().Add(lookWithin)); err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, s.to) // until nobody has the other side open
	ended := make(chan error, 1)
	go func() { ended <- s.c.Wait() }()
	select {
	case err := <-ended:
		if s.c.ProcessState.ExitCode() != status {
			s.t.Errorf("status %v, want %d", err, status)
		}
	case <-time.After(lookWithin):
		_ = s.c.Process.Kill()
		s.t.Fatal("the command ended, and who asked for it did not")
	}
}

// terminal: a command of exec has a terminal of the guest's with the size of the person's, at
// once and later.
func terminal(t *testing.T, w *world, _ *asked) {
	s := w.screen(t, "exec", "m", "--", "sh", "-c",
		"trap 'stty size' WINCH; stty size; tty; while ! read line; do :; done; echo got $line; exit 6")
	s.until("31 97")
	s.until("/dev/pts/")
	if err := pty.Setsize(s.to, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	s.until("40 120")
	s.say("over\n")
	s.until("got over")
	s.ends(6)
}

// shell: a shell of exec, as a person uses one: it is interrupted, writes much, reads much, and ends.
func shell(t *testing.T, w *world, _ *asked) {
	s := w.screen(t, "exec", "m", "--", "sh", "-i")
	s.say("PS1='ready> '; echo $((6 * 7))\n")
	s.until("42\r\n")
	s.say("sleep 1000\n")
	s.until("sleep 1000\r\n")
	s.say("\x03")
	s.until("ready> ")
	const most = 60000
	s.say("seq 60000; echo fin\"\"ished\n")
	text := s.until("finished\r\n")
	if n := strings.Count(text, "\n"); n < most {
		t.Errorf("%d lines came of %d", n, most)
	}
	s.say("stty -echo; wc -c\n")
	s.until("wc -c\r\n")
	for range 64 {
		s.say(strings.Repeat("x", 1023) + "\n") // a line is longer than a terminal holds of two
	}
	s.say("\x04")
	s.until("65536\r\n")
	s.say("exit 3\n")
	s.ends(3)
}

// underScript: as script has it, which is what many agents' wrappers do.
func underScript(t *testing.T, w *world, _ *asked) {
	ctx, stop := context.WithTimeout(context.Background(), lookWithin)
	defer stop()
	c := exec.CommandContext(ctx, "script", "-qec",
		"stty rows 33 cols 101; '"+binary+"' exec m -- sh -c 'stty size; tty; exit 5'", "/dev/null")
	c.Dir, c.Env = w.project, w.env
	out, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 5 || !strings.Contains(string(out), "33 101") || !strings.Contains(string(out), "/dev/pts/") {
		t.Errorf("%q, %v", out, err)
	}
}
