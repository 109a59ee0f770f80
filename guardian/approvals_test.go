//go:build linux

package guardian_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"cloister/api"
	"cloister/guardian/folders"
)

// watcher reads the events of a guardian as a person's program does.
type watcher struct {
	events chan api.Event
	stop   context.CancelFunc
	done   chan error
}

func watch(t *testing.T, root, last string) *watcher {
	t.Helper()
	c := dial(t, root)
	ctx, stop := context.WithCancel(t.Context())
	w := &watcher{events: make(chan api.Event, 100), stop: stop, done: make(chan error, 1)}
	go func() {
		w.done <- c.Events(ctx, last, func(e api.Event) bool { w.events <- e; return true })
	}()
	t.Cleanup(func() { stop(); <-w.done; _ = c.Close() })
	if e := w.next(t, api.EventHello); e.ID == "" {
		t.Error("the first event has no ID")
	}
	return w
}

// next waits for an event of that type.
func (w *watcher) next(t *testing.T, kind string) api.Event {
	t.Helper()
	within := time.After(10 * time.Second)
	for {
		select {
		case e := <-w.events:
			if e.Type == kind {
				return e
			}
		case <-within:
			t.Fatalf("no event %s", kind)
		}
	}
}

const asking = `version: 1
proxy:
  unlisted_domain_behavior: ask
  approval_timeout: 2s
  presets: []
`

func TestEventsResume(t *testing.T) {
	root := home(t, asking)
	d := serve(t, root, nil)
	defer d.end(t)
	c := dial(t, root)
	w := watch(t, root, "")
	l := openSession(t, c, request("one"))
	first := w.next(t, api.EventSession)
	w.stop()
	if _, err := l.End(t.Context(), api.SessionEnd{}); err != nil {
		t.Fatal(err)
	}
	again := watch(t, root, first.ID)
	var info api.SessionInfo
	if err := json.Unmarshal(again.next(t, api.EventSession).Data, &info); err != nil || info.State != api.StateStopped {
		t.Errorf("what was missed is %+v, %v", info, err)
	}
	// An ID of another guardian, or of nobody: fetch it all again.
	for _, id := range []string{"zzz-1", "nonsense", first.ID + "9"} {
		watch(t, root, id).next(t, api.EventReset)
	}
}

// A reader that stalls is dropped, and nobody waits for it.
func TestStalledReader(t *testing.T) {
	root := home(t, asking)
	d := serve(t, root, nil)
	defer d.end(t)
	raw, err := net.Dial("unix", folders.Socket(dirs(root)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	if _, err := io.WriteString(raw, "GET /v1/events HTTP/1.1\r\nHost: guardian\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	c := dial(t, root)
	w := watch(t, root, "")
	began := time.Now()
	for i := range 100 {
		l := openSession(t, c, request(fmt.Sprint("s", i)))
		w.next(t, api.EventSession)
		if _, err := l.End(t.Context(), api.SessionEnd{}); err != nil {
			t.Fatal(err)
		}
		w.next(t, api.EventSession)
	}
	t.Logf("200 events past a stalled reader in %s", time.Since(began))
}

func TestUnknownApprovals(t *testing.T) {
	root := home(t, asking)
	d := serve(t, root, nil)
	defer d.end(t)
	c := dial(t, root)
	if _, err := c.Approval(t.Context(), "00"); !isCode(err, api.CodeNotFound) {
		t.Errorf("no such question: %v", err)
	}
	if _, err := c.Answer(t.Context(), "00000000", true, api.ApprovalReply{}); !isCode(err, api.CodeNotFound) {
		t.Errorf("no such question: %v", err)
	}
	if _, err := c.Undo(t.Context(), "00000000", "cli"); !isCode(err, api.CodeNotFound) {
		t.Errorf("no such answer: %v", err)
	}
}

func isCode(err error, code api.Code) bool {
	refused, ok := errors.AsType[*api.Error](err)
	return ok && refused.Code == code
}
