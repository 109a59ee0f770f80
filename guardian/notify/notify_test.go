package notify_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cloister/approval"
	"cloister/config"
	"cloister/guardian/notify"
	"cloister/host/resolve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a notifier with a configuration until the test ends.
func serve(t *testing.T, c *config.Notify) *notify.Notifier {
	t.Helper()
	n := notify.New(notify.Options{
		Config: func() config.Notify { return *c }, Env: []string{"PATH=/usr/bin:/bin", "OWN=1"},
		Resolver: resolve.In(t.TempDir(), os.Getuid()), Log: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return n
}

func item(kind approval.Kind, session, subject string) approval.Item {
	return approval.Item{Ask: approval.Ask{Kind: kind, Session: session, Subject: subject}, ID: "12345678", Outcome: approval.Pending}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestCommand: a program gets each question and its end as a line, with no text of an
// agent's but a plain destination.
func TestCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	c := &config.Notify{Command: []string{"/bin/sh", "-c", `cat >>"$0"`, out}}
	n := serve(t, c)
	if !n.Reached() {
		t.Error("nobody is reached")
	}
	ended := item(approval.Network, "app-1d38", "example.com:443")
	ended.Outcome, ended.Settled = approval.Denied, time.Now()
	asked := []approval.Item{
		item(approval.Network, "app-1d38", "example.com:443"), ended,
		item(approval.Hostexec, "<b>x</b>", "curl -H 'Authorization: Bearer SECRET'"),
		item(approval.Network, "app", "a.example:443 <!channel>"),
		item(approval.Secret, "app", "KEY GET x"), item(approval.MCP, "app", "x/y"), item(approval.Request, "app", "GET http://x/SECRET"),
	}
	for i := range asked {
		n.Changed(i, asked[i])
	}
	want := []string{
		"cloister: app-1d38 asks to connect to example.com:443. Look and answer: cloister approvals show 12345678",
		"cloister: the question of app-1d38, to connect to example.com:443, is over: denied",
		"cloister: a cloister asks to run a command on the host. Look and answer: cloister approvals show 12345678",
		"cloister: app asks to connect to a destination. Look and answer: cloister approvals show 12345678",
		"cloister: app asks to use a secret. Look and answer: cloister approvals show 12345678",
		"cloister: app asks to use a tool. Look and answer: cloister approvals show 12345678",
		"cloister: app asks to send a request. Look and answer: cloister approvals show 12345678",
	}
	var text []byte
	eventually(t, "the program did not get all", func() bool {
		text, _ = os.ReadFile(out)
		return strings.Count(string(text), "\n") == len(want)
	})
	if strings.Contains(string(text), "SECRET") || strings.Contains(string(text), "channel") {
		t.Errorf("an agent's words left: %s", text)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var m notify.Message
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.Text != want[i] || m.Content != want[i] || m.Waiting != i {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestWebhook: an address gets questions and no ends; one that fails reaches no person
// until it works again, and is not followed elsewhere.
func TestWebhook(t *testing.T) {
	got := make(chan string, 8)
	status := make(chan int, 8)
	var elsewhere bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			elsewhere = true
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(<-status)
		got <- r.Method + " " + r.Header.Get("Content-Type") + " " + string(body)
	}))
	defer s.Close()
	c := &config.Notify{Webhook: s.URL + "/hook"}
	n := serve(t, c)
	ended := item(approval.Network, "app", "example.com:443")
	ended.Outcome, ended.Settled = approval.Allowed, time.Now()
	n.Changed(0, ended)
	for _, answer := range []struct {
		status  int
		reached bool
	}{{204, true}, {307, false}, {500, false}, {200, true}} {
		status <- answer.status
		n.Changed(1, item(approval.Network, "app", "example.com:443"))
		if text := <-got; !strings.HasPrefix(text, "POST application/json {") || !strings.Contains(text, `"event":"asked"`) {
			t.Errorf("it got %s", text)
		}
		eventually(t, "the answer made no difference", func() bool { return n.Reached() == answer.reached })
	}
	if elsewhere {
		t.Error("it was sent elsewhere")
	}
}

// TestNone: who configures nothing is not reached, and a program that is not there reaches
// no person.
func TestNone(t *testing.T) {
	n := serve(t, &config.Notify{})
	n.Changed(1, item(approval.Network, "app", "example.com:443"))
	if n.Reached() {
		t.Error("reached by nothing")
	}
	broken := serve(t, &config.Notify{Command: []string{"/nowhere/program"}})
	broken.Changed(1, item(approval.Network, "app", "example.com:443"))
	eventually(t, "a program that is not there reaches a person", func() bool { return !broken.Reached() })
}
