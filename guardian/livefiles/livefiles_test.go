package livefiles_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"cloister/api"
	"cloister/audit"
	"cloister/audit/recorder"
	"cloister/guardian/livefiles"
	"cloister/guardian/sessionctx"
	"cloister/policy"
)

// A shim is asked for each change once, and what it answers is on record.
func TestAsk(t *testing.T) {
	dir := t.TempDir()
	records, err := recorder.Open(dir, slog.New(slog.DiscardHandler), func(audit.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := policy.Compile(policy.Input{})
	if err != nil {
		t.Fatal(err)
	}
	c := &sessionctx.Context{Info: api.SessionInfo{ID: "1", Name: "work"}, Records: records}
	c.Snapshot.Store(snapshot)
	files := func(text string) []api.CedarFile {
		return livefiles.Of([]policy.CedarFile{{Name: "net.cedar", Text: []byte("permit(principal, action, resource == Host::\"a.example\");")},
			{Name: "a.cedar", Text: []byte(`forbid(principal, action == Action::"FileOpen", resource == File::"/` + text + `");`)}})
	}
	if list := files("a"); len(list) != 1 || list[0].Name != "a.cedar" {
		t.Fatalf("files that speak of files: %+v", list)
	}
	var s livefiles.Session
	s.Began(files("a"))
	asked := 0
	answer := func(a api.Applied) func(api.Frame) error {
		return func(f api.Frame) error {
			asked++
			if f.Type != api.FrameFiles || f.Files == nil {
				t.Errorf("it was sent %+v", f)
			}
			s.Answer(api.Applied{Number: f.Files.Number - 1, Reason: "late"}) // of a question before
			a.Number = f.Files.Number
			s.Answer(a)
			s.Answer(a) // again: nobody waits
			return nil
		}
	}
	for i, step := range []struct {
		text         string
		answer       api.Applied
		says         string
		asked        int
		verdict, why string
	}{
		{"a", api.Applied{}, "", 0, "", ""},
		{"b", api.Applied{}, "", 1, "allow", "in force from here on"},
		{"b", api.Applied{}, "", 1, "", ""},
		{"c", api.Applied{Reason: "/c is\nnot there"}, "work keeps the statements about files and programs that it has: /c is; not there", 2,
			"deny", "/c is; not there; what ruled before rules on"},
		{"c", api.Applied{Reason: "still"}, "work keeps the statements about files and programs that it has: still", 3, "deny", "still"}, // each reload tries
		{"d", api.Applied{Same: true}, "", 4, "", ""},
		{"d", api.Applied{}, "", 4, "", ""},
	} {
		before := recorded(t, dir)
		if says := s.Ask(t.Context(), c, answer(step.answer), files(step.text)); says != step.says || asked != step.asked {
			t.Errorf("step %d: asked %d times, said %q", i, asked, says)
		}
		list := recorded(t, dir)[len(before):]
		if step.verdict == "" && len(list) > 0 || step.verdict != "" && (len(list) != 1 || list[0].Kind != audit.PolicyLoad ||
			list[0].Verdict != step.verdict || !strings.Contains(list[0].Reason, step.why) || list[0].Session != "work") {
			t.Errorf("step %d: the record has %+v", i, list)
		}
	}
	ended, end := context.WithCancel(t.Context())
	for name, send := range map[string]func(api.Frame) error{
		"the link is broken": func(api.Frame) error { return errors.New("gone") },
		"the session ends":   func(api.Frame) error { end(); return nil },
	} {
		if says := s.Ask(ended, c, send, files("e")); says != "" {
			t.Errorf("%s: %q", name, says)
		}
	}
	long := files(strings.Repeat("x", api.MaxFrame))
	if says := s.Ask(t.Context(), c, answer(api.Applied{}), long); !strings.Contains(says, "too long for a running session") || asked != 4 {
		t.Errorf("%d bytes: %q, asked %d times", len(long[0].Text), says, asked)
	}
}

// A shim that answers too late may have done what it was asked: it is asked again, also for what it had.
func TestLate(t *testing.T) {
	records, err := recorder.Open(t.TempDir(), slog.New(slog.DiscardHandler), func(audit.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := policy.Compile(policy.Input{})
	if err != nil {
		t.Fatal(err)
	}
	files := func(text string) []api.CedarFile { return []api.CedarFile{{Name: "a.cedar", Text: text}} }
	synctest.Test(t, func(t *testing.T) {
		c := &sessionctx.Context{Info: api.SessionInfo{ID: "1", Name: "work"}, Records: records}
		c.Snapshot.Store(snapshot)
		var s livefiles.Session
		s.Began(files("before"))
		if says := s.Ask(t.Context(), c, func(api.Frame) error { return nil }, files("after")); !strings.Contains(says, "did not answer") {
			t.Errorf("of one that is silent: %q", says)
		}
		asked := false
		says := s.Ask(t.Context(), c, func(f api.Frame) error {
			asked = true
			s.Answer(api.Applied{Number: f.Files.Number})
			return nil
		}, files("before"))
		if says != "" || !asked {
			t.Errorf("back to what it had: asked %t, %q", asked, says)
		}
	})
}

func recorded(t *testing.T, dir string) (out []audit.Event) {
	t.Helper()
	for e, err := range audit.Read(dir, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}
