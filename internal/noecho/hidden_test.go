package noecho_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"cloister/internal/noecho"
)

// answer is what became of a question.
type answer struct {
	text string
	err  error
}

// ask has the question asked of a new terminal and, when it is there, does what the
// person does. It gives the answer and what the screen showed, and holds that the
// terminal is as it was.
func ask(t *testing.T, more bool, person func(keys *os.File)) (answer, string) {
	t.Helper()
	mine, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	defer tty.Close()
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	prompt := make(chan struct{})
	screen := &shown{first: prompt}
	done := make(chan answer, 1)
	go func() {
		text, err := noecho.Line(tty, screen, "KEY", more)
		done <- answer{text, err}
	}()
	within := time.After(2 * time.Minute)
	select {
	case <-prompt:
	case <-within:
		t.Fatal("nothing was asked")
	}
	person(mine)
	select {
	case got := <-done:
		if _, stopped := errors.AsType[*noecho.Interrupted](got.err); !stopped && !more {
			left, err := unix.Poll([]unix.PollFd{{Fd: int32(tty.Fd()), Events: unix.POLLIN}}, 0) // a small number
			if err != nil || left != 0 {
				t.Errorf("something is left for the shell: %v", err)
			}
		}
		after, err := term.GetState(int(tty.Fd()))
		if err != nil || *after != *before {
			t.Errorf("the terminal is not as it was: %v", err)
		}
		return got, screen.String()
	case <-within:
		t.Fatal("the question did not end")
	}
	return answer{}, ""
}

// shown is what was written, and tells of the first of it.
type shown struct {
	strings.Builder
	first chan struct{}
}

func (s *shown) Write(p []byte) (int, error) {
	n, err := s.Builder.Write(p)
	if s.first != nil {
		close(s.first)
		s.first = nil
	}
	return n, err // of a Builder
}

func TestLine(t *testing.T) {
	long := strings.Repeat("x", 9000)
	for name, c := range map[string]struct {
		keys, want string
		err        error
	}{
		"a line":         {keys: "sk-ant-1\r", want: "sk-ant-1"},
		"sent by a test": {keys: "sk-ant-1\n", want: "sk-ant-1"},
		"both ends":      {keys: "sk-ant-1\r\n", want: "sk-ant-1"},
		"nothing":        {keys: "\r"},
		"corrected":      {keys: "aü\x7fb\x15sk\x08s\r", want: "ss"},
		"long":           {keys: long + "\r", want: long},
		"Ctrl-D at once": {keys: "\x04", err: io.EOF},
		"lines behind":   {keys: "\x04touch /tmp/never\r", err: io.EOF},
		"Ctrl-D later":   {keys: "a\x04b\x1a\r", want: "ab"},
		"Ctrl-D behind":  {keys: "sk-ant-1\r\x04", want: "sk-ant-1"},
		"line behind it": {keys: "one\r\x04touch /tmp/never\r", err: noecho.ErrLines},
		"two lines":      {keys: "one\rtouch /tmp/never\r", err: noecho.ErrLines},
	} {
		t.Run(name, func(t *testing.T) {
			got, screen := ask(t, false, func(keys *os.File) { typed(t, keys, c.keys) })
			if got.text != c.want || !errors.Is(got.err, c.err) {
				t.Errorf("it is %.40q, %v; want %.40q, %v", got.text, got.err, c.want, c.err)
			}
			if screen != "KEY: \n" {
				t.Errorf("the screen shows %q", screen)
			}
		})
	}
}

// What is too long is taken whole, too, and what was pasted behind it.
func TestTooLong(t *testing.T) {
	text := strings.Repeat("x", 1<<20) + "y\x7f\rtouch /tmp/never\r"
	wrote := make(chan int, 1)
	got, _ := ask(t, false, func(keys *os.File) {
		go func() {
			n, _ := keys.WriteString(text)
			wrote <- n
		}()
	})
	if got.text != "" || got.err == nil || !strings.Contains(got.err.Error(), "more than 1048576 bytes") {
		t.Errorf("it is %.40q, %v", got.text, got.err)
	}
	if n := <-wrote; n != len(text) {
		t.Errorf("%d bytes of %d were taken", n, len(text))
	}
}

func typed(t *testing.T, keys *os.File, text string) {
	t.Helper()
	if _, err := keys.WriteString(text); err != nil {
		t.Error(err)
	}
}

func TestInterrupted(t *testing.T) {
	kill := func(s syscall.Signal) func(*os.File) {
		return func(*os.File) {
			if err := syscall.Kill(os.Getpid(), s); err != nil {
				t.Error(err)
			}
		}
	}
	for name, c := range map[string]struct {
		person func(*os.File)
		want   syscall.Signal
	}{
		"Ctrl-C":  {func(k *os.File) { typed(t, k, "abc\x03") }, syscall.SIGINT},
		"Ctrl-\\": {func(k *os.File) { typed(t, k, "abc\x1c") }, syscall.SIGINT},
		"SIGTERM": {kill(syscall.SIGTERM), syscall.SIGTERM},
		"SIGHUP":  {kill(syscall.SIGHUP), syscall.SIGHUP},
		"SIGINT":  {kill(syscall.SIGINT), syscall.SIGINT},
		"SIGQUIT": {kill(syscall.SIGQUIT), syscall.SIGQUIT},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := ask(t, false, c.person)
			var stopped *noecho.Interrupted
			if !errors.As(got.err, &stopped) || stopped.Signal != c.want || got.text != "" {
				t.Errorf("it ended with %q, %v", got.text, got.err)
			}
		})
	}
}

func TestMain(m *testing.M) {
	if os.Getenv("HIDDEN_TEST_RAISE") != "" {
		(&noecho.Interrupted{Signal: syscall.SIGINT, Key: true}).Raise()
		os.Exit(3)
	}
	os.Exit(m.Run())
}

// Who waits for this process sees that it was interrupted, and what runs in front
// with it is interrupted, too.
func TestRaise(t *testing.T) {
	c := exec.CommandContext(t.Context(), "sh", "-c", `"$0"; echo "went on"`, os.Args[0])
	c.Env = append(os.Environ(), "HIDDEN_TEST_RAISE=1")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.CombinedOutput()
	state, ok := c.ProcessState.Sys().(syscall.WaitStatus)
	if err == nil || !ok || state.Signal() != syscall.SIGINT || len(out) > 0 {
		t.Errorf("the shell: %v, %s", err, out)
	}
}

// Several are asked for one after another, and pasted at once.
func TestMoreIsLeftThere(t *testing.T) {
	mine, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	defer tty.Close()
	typed(t, mine, "one\ntwo\n\x04") // script(1) sends the end of its input, too
	for _, want := range []string{"one", "two"} {
		if got, err := noecho.Line(tty, io.Discard, "KEY", want == "one"); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
