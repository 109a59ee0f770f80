package terminal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"

	"cloister/internal/vscreen"
	"cloister/session/terminal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program is one program on a hub that terminals reach by a socket.
type program struct {
	t      *testing.T
	hub    *terminal.Hub
	cmd    *exec.Cmd
	path   string
	listen *net.UnixListener
	log    bytes.Buffer
	// asked says what waits, to one who attaches; answers are what was answered.
	asked   chan terminal.Asked
	answers chan terminal.Reply
}

func run(t *testing.T, size vscreen.Size, argv ...string) *program {
	t.Helper()
	p := &program{t: t, asked: make(chan terminal.Asked), answers: make(chan terminal.Reply, 8)}
	hub, err := terminal.New(terminal.Options{Size: size, Log: &p.log})
	if err != nil {
		t.Fatal(err)
	}
	p.hub = hub
	p.cmd = exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = hub.Terminal(), hub.Terminal(), hub.Terminal()
	p.cmd.Env = append(os.Environ(), "PS1=$ ", "TERM=xterm-256color", "ENV=")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "term")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p.path = filepath.Join(dir, "s")
	p.listen, err = net.ListenUnix("unix", &net.UnixAddr{Name: p.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	hub.Serve(p.listen, os.Getuid())
	return p
}

// end waits for the program and says its end.
func (p *program) end(status int) {
	p.t.Helper()
	_ = p.cmd.Wait() // its status is the test's to choose
	p.listen.Close()
	if err := p.hub.Finish(terminal.End{Status: status, Notices: []string{"over"}}); err != nil {
		p.t.Error(err)
	}
}

// person is somebody at a terminal of their own.
type person struct {
	t       *testing.T
	tty     *os.File // what cloister attach has
	mine    *os.File // the terminal's own side
	mu      sync.Mutex
	screen  *vscreen.Screen
	raw     bytes.Buffer
	read    chan struct{}
	outcome chan terminal.Outcome
}

func (p *program) attach(size vscreen.Size) *person {
	p.t.Helper()
	mine, tty, err := pty.Open()
	if err != nil {
		p.t.Fatal(err)
	}
	w := &person{t: p.t, tty: tty, mine: mine, screen: vscreen.New(size, func([]byte) { p.t.Error("the terminal was asked something") }), read: make(chan struct{}), outcome: make(chan terminal.Outcome, 1)}
	w.resize(size)
	go func() {
		defer close(w.read)
		buf := make([]byte, 4096)
		for {
			n, err := mine.Read(buf)
			w.mu.Lock()
			w.screen.Draw(buf[:n])
			w.raw.Write(buf[:n])
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.path, Net: "unix"})
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		out, err := terminal.Attach(p.t.Context(), conn, tty, tty, p.asked, func(_ context.Context, r terminal.Reply) string {
			p.answers <- r
			return ""
		})
		if err != nil && !errors.Is(err, io.EOF) {
			p.t.Error(err)
		}
		conn.Close()
		w.outcome <- out
	}()
	return w
}

func (w *person) resize(size vscreen.Size) {
	w.t.Helper()
	if err := pty.Setsize(w.tty, &pty.Winsize{Cols: uint16(size.Cols), Rows: uint16(size.Rows)}); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.screen.Resize(size)
	w.mu.Unlock()
}

func (w *person) types(text string) {
	w.t.Helper()
	if _, err := w.mine.WriteString(text); err != nil {
		w.t.Fatal(err)
	}
}

func (w *person) shown() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for y := range w.screen.Size().Rows {
		lines = append(lines, string(w.screen.Line(y)))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// sees waits until the screen satisfies a condition.
func (w *person) sees(what string, ok func(string) bool) {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		if ok(w.shown()) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the terminal does not show %s:\n%s", what, w.shown())
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (w *person) seesText(text string) {
	w.t.Helper()
	w.sees(fmt.Sprintf("%q", text), func(s string) bool { return strings.Contains(s, text) })
}

// leaves waits for the outcome and closes the terminal.
func (w *person) leaves() terminal.Outcome {
	w.t.Helper()
	select {
	case out := <-w.outcome:
		w.tty.Close()
		<-w.read
		w.mine.Close()
		return out
	case <-time.After(20 * time.Second):
		w.t.Fatal("the terminal is still attached")
		return terminal.Outcome{}
	}
}

var small = vscreen.Size{Cols: 40, Rows: 10}

// got waits until the terminal was sent a text.
func (w *person) got(text string) {
	w.t.Helper()
	w.sees(fmt.Sprintf("%q among its bytes", text), func(string) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Contains(w.raw.String(), text)
	})
}

// TestQuestionsWait: the title and the bell are ours, come between two sequences
// of the program's, and the title is given back.
func TestQuestionsWait(t *testing.T) {
	p := run(t, small, "sh", "-c", `printf ready; read z; printf 'half \033[3'; read a; printf '1mred\033[0m whole'; read b`)
	w := p.attach(small)
	w.seesText("ready")
	w.types("\n")
	w.seesText("half")
	p.asked <- terminal.Asked{Waiting: 1}
	w.types("\n")
	w.seesText("whole")
	const title = "\x1b[22;2t\x1b]2;(1) cloister asks: cloister approvals\x1b\\\a"
	w.got(title)
	w.mu.Lock()
	if strings.Contains(w.raw.String(), "[3\x1b") {
		t.Errorf("it broke a sequence: %q", w.raw.String())
	}
	w.mu.Unlock()
	p.asked <- terminal.Asked{Waiting: 2}
	w.got("\x1b]2;(2) cloister asks: cloister approvals\x1b\\\a")
	p.asked <- terminal.Asked{Waiting: 1}
	w.got("\a\x1b]2;(1) cloister asks: cloister approvals\x1b\\") // fewer do not ring
	p.asked <- terminal.Asked{Waiting: 0}
	w.got("\x1b]2;\x1b\\\x1b[23;2t")
	p.asked <- terminal.Asked{Waiting: 3}
	w.got("(3)")
	w.types("\x10\x11")
	w.leaves()
	if raw := w.raw.String(); strings.Count(raw, "\x1b[23;2t") != 2 || strings.Count(raw, "\a") != 3 {
		t.Errorf("the title was not given back, or the bell not as often: %q", raw)
	}
	p.cmd.Process.Kill()
	p.end(0)
}

func TestDetachAndComeBack(t *testing.T) {
	p := run(t, small, "sh")
	w := p.attach(small)
	w.types("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done\n")
	w.sees("the prompt behind the last line", func(s string) bool {
		_, behind, is := strings.Cut(s, "line 12\n")
		return is && strings.TrimSpace(behind) != ""
	})
	before := w.shown()
	w.types("\x10\x11")
	if out := w.leaves(); !out.Detached {
		t.Errorf("outcome %+v, want detached", out)
	}
	again := p.attach(small)
	again.sees("what it showed before", func(s string) bool { return s == before })
	again.mu.Lock()
	history := strings.Join(again.screen.History(), "\n")
	again.mu.Unlock()
	if !strings.Contains(history, "line 1\n") {
		t.Errorf("its history is %q", history)
	}
	again.types("exit 3\n")
	p.end(3)
	out := again.leaves()
	if out.End == nil || out.End.Status != 3 || len(out.End.Notices) != 1 {
		t.Errorf("outcome %+v", out)
	}
	if !strings.Contains(p.log.String(), "line 7\r\n") {
		t.Errorf("the log is %q", p.log.String())
	}
}

func TestSeveralTerminals(t *testing.T) {
	p := run(t, small, "sh")
	one, two := p.attach(small), p.attach(vscreen.Size{Cols: 60, Rows: 20})
	// Who sees something has been counted in.
	one.seesText("$")
	two.seesText("$")
	two.types("stty size\n")
	one.seesText("10 40")
	two.seesText("10 40")
	three := p.attach(vscreen.Size{Cols: 30, Rows: 5})
	three.seesText("$")
	three.types("stty size\n")
	one.seesText("5 30")
	two.sees("the last lines in the smallest size", func(s string) bool {
		return strings.Contains(s, "5 30") && strings.Count(s, "\n") < 5
	})
	three.types("\x10\x11")
	three.leaves()
	one.types("stty size; seq 100 120; tput smcup 2>/dev/null; printf '\\033[?1049h\\033[H\\033[2Jfull'\n")
	for _, w := range []*person{one, two} {
		w.sees("the full screen", func(s string) bool { return strings.HasPrefix(s, "full") })
	}
	one.types("printf '\\033[?1049l'; exit\n")
	p.end(0)
	one.leaves()
	two.leaves()
}

func TestResize(t *testing.T) {
	p := run(t, small, "sh", "-c", `while :; do stty size; sleep 0.05; done`)
	w := p.attach(small)
	for _, size := range []vscreen.Size{{Cols: 70, Rows: 12}, {Cols: 1, Rows: 1}, {Cols: 33, Rows: 7}} {
		w.resize(size)
		// What the kernel does where the terminal controls the process.
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
			t.Fatal(err)
		}
		if size.Cols > 1 {
			w.seesText(fmt.Sprintf("%d %d", size.Rows, size.Cols))
		}
	}
	w.types("\x03")
	p.end(0)
	w.leaves()
}

// TestQuestionsAreAnsweredOnce asks as editors do, with nobody there, with one
// and with two.
func TestQuestionsAreAnsweredOnce(t *testing.T) {
	p := run(t, small, "sh", "-c", `
		stty raw -echo min 0 time 20
		ask() { printf '\033[6n\033[?u\033[>q\005'; dd bs=64 count=1 2>/dev/null | od -An -c | tr -d ' \n'; printf ' told %s\r\n' $1; }
		ask 1; while ! dd bs=1 count=1 2>/dev/null | grep -q .; do :; done; ask 2`)
	one, two := p.attach(small), p.attach(small)
	one.seesText("told 1")
	two.types("x")
	one.seesText("told 2")
	for _, want := range []string{"033[1;1R told 1", "033[2;1R told 2"} {
		if got := one.shown(); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	p.end(0)
	one.leaves()
	two.leaves()
}

// TestSlowTerminal is one that does not read: neither the program nor the
// others wait for it.
func TestSlowTerminal(t *testing.T) {
	p := run(t, small, "sh", "-c", `read x; seq 1 70000; echo done; read x`)
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("s\x00\x00\x00\x16{\"Cols\":40,\"Rows\":10 }")); err != nil {
		t.Fatal(err)
	}
	w := p.attach(small)
	w.types("\n")
	w.seesText("done")
	w.types("\n")
	began := time.Now()
	p.end(0)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the end waited %v for a terminal that does not read", took)
	}
	w.leaves()
}

// TestHostileCallers cannot do more than be hung up on.
func TestHostileCallers(t *testing.T) {
	p := run(t, small, "cat")
	for _, say := range []string{"", "i\x00\x00\x00\x01x", "s\xff\xff\xff\xff", "s\x00\x00\x00\x02{]", "GET / HTTP/1.1\r\n\r\n", "s\x00\x00\x00\x1e{\"Cols\":99999999,\"Rows\":-1}    q\x00\x00\x00\x00"} {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, say); err != nil {
			t.Error(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, conn) // until it is hung up
		conn.Close()
	}
	w := p.attach(small)
	w.types("still here\n")
	w.seesText("still here\nstill here")
	w.types("\x04")
	p.end(0)
	w.leaves()
}

func TestAttachNeedsATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := terminal.Attach(context.Background(), nil, r, w, nil, nil); !errors.Is(err, terminal.ErrNoTerminal) {
		t.Errorf("error %v", err)
	}
}
