package desktop_test

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"go.uber.org/goleak"

	"cloister/internal/needs"
	"cloister/ui/desktop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWordsHoldNoMarkup(t *testing.T) {
	for _, session := range []string{"<b>x</b>", "a & b", "x\x1b]2;y\a", "\u202ex", strings.Repeat("a", 65), "a b", "http://x/y"} {
		if _, body := desktop.Words(1, session); body != "Look and answer: cloister approvals watch" {
			t.Errorf("%q is shown as %q", session, body)
		}
	}
	if summary, body := desktop.Words(3, "app-1d38"); summary != "cloister: 3 questions wait" || !strings.HasPrefix(body, "app-1d38 asks. ") {
		t.Errorf("%q %q", summary, body)
	}
}

// screen is a desktop that shows notifications.
type screen struct {
	mu     sync.Mutex
	told   []string
	closed []uint32
	ids    []uint32
	heard  chan struct{}
}

// Notify is the method of that name.
func (s *screen) Notify(app string, id uint32, icon, summary, body string, actions []string, hints map[string]dbus.Variant, expire int32) (uint32, *dbus.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told, s.ids = append(s.told, summary+"|"+body), append(s.ids, id)
	s.heard <- struct{}{}
	return 7, nil
}

// CloseNotification is the method of that name.
func (s *screen) CloseNotification(id uint32) *dbus.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = append(s.closed, id)
	s.heard <- struct{}{}
	return nil
}

// bus is a session bus of the test's own.
func bus(t *testing.T) string {
	t.Helper()
	path := needs.Program(t, "dbus", "dbus-daemon")
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := exec.CommandContext(ctx, path, "--session", "--nofork", "--print-address=1", "--address=unix:path="+dir+"/bus")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = c.Wait(); os.RemoveAll(dir) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestBell(t *testing.T) {
	address := bus(t)
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := &screen{heard: make(chan struct{}, 10)}
	if err := conn.Export(s, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"); err != nil {
		t.Fatal(err)
	}
	if reply, err := conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatal(reply, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	b := desktop.New(address, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})))
	done := make(chan struct{})
	go func() { b.Run(ctx); close(done) }()
	heard := func() {
		t.Helper()
		select {
		case <-s.heard:
		case <-time.After(20 * time.Second):
			t.Fatal("the desktop heard nothing")
		}
	}
	b.Ring(1, "one")
	heard()
	b.Ring(2, "two <b>")
	heard()
	b.Ring(0, "")
	heard()
	b.Ring(1, "three")
	heard()
	stop()
	heard() // what is shown at the end is taken away
	<-done
	s.mu.Lock()
	defer s.mu.Unlock()
	want := []string{
		"cloister: a question waits|one asks. Look and answer: cloister approvals watch",
		"cloister: 2 questions wait|Look and answer: cloister approvals watch",
		"cloister: a question waits|three asks. Look and answer: cloister approvals watch",
	}
	if strings.Join(s.told, "\n") != strings.Join(want, "\n") {
		t.Errorf("told %q", s.told)
	}
	if len(s.ids) != 3 || s.ids[0] != 0 || s.ids[1] != 7 || s.ids[2] != 0 || len(s.closed) != 2 {
		t.Errorf("notifications %v, closed %v", s.ids, s.closed)
	}
}

// A bus that is not there, or where nobody shows anything, keeps nobody waiting.
func TestNoDesktop(t *testing.T) {
	for _, address := range []string{"unix:path=/nonexistent/bus", "nonsense", bus(t)} {
		ctx, stop := context.WithCancel(t.Context())
		b := desktop.New(address, slog.New(slog.DiscardHandler))
		done := make(chan struct{})
		go func() { b.Run(ctx); close(done) }()
		for range 100 {
			b.Ring(1, "x")
		}
		stop()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it does not end", address)
		}
	}
}
