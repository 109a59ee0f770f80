package court_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/audit/recorder"
	"cloister/guardian/court"
	"cloister/guardian/sessionctx"
	"cloister/internal/source"
	"cloister/policy"
	"cloister/session/stats"
)

// How the world answers one case.
type world struct {
	policy     policy.Effect
	then       policy.Effect // of a policy that changed while a person thought; 0 where it did not
	changed    bool
	remembered policy.Effect
	kept       bool   // something is remembered
	person     string // unwatched, once, never, session, timeout, unasked, unrecorded, large; empty: must not be asked
	record     string // ok, broken, over
}

func TestDecide(t *testing.T) {
	const deny, ask, allow = policy.Deny, policy.Ask, policy.Allow
	for _, tt := range []struct {
		name  string
		in    world
		want  policy.Effect
		says  string // part of the full reason
		asked int    // questions that a person saw
	}{
		{"policy allows", world{policy: allow}, allow, "by rule", 0},
		{"policy denies", world{policy: deny}, deny, "by rule", 0},
		{"policy denies, and an allow is remembered", world{policy: deny, kept: true, remembered: allow}, deny, "by rule", 0},
		{"policy allows, and a deny is remembered", world{policy: allow, kept: true, remembered: deny}, deny, "remembered", 0},
		{"policy asks, and an allow is remembered", world{policy: ask, kept: true, remembered: allow}, allow, "remembered", 0},
		{"policy asks, and a deny is remembered", world{policy: ask, kept: true, remembered: deny}, deny, "remembered", 0},
		{"no person may be asked", world{policy: ask, person: "unasked"}, ask, "nobody is watching: by rule", 0},
		{"no person watches", world{policy: ask, person: "unwatched"}, ask, "nobody is watching: by rule", 0},
		{"no person answers", world{policy: ask, person: "timeout"}, ask, "in time: by rule", 1},
		{"the caller leaves", world{policy: ask, person: "leaves"}, deny, "the session has ended", 1},
		{"the question is too large", world{policy: ask, person: "large"}, deny, "by rule; but its text has 9 bytes, and a person is shown 8 at most", 0},
		{"the question cannot be recorded", world{policy: ask, person: "unrecorded"}, ask, "question could not be recorded: by rule", 0},
		{"a person allows it once", world{policy: ask, person: "once"}, allow, "a person allowed it: approval", 1},
		{"a person denies it once", world{policy: ask, person: "never"}, deny, "a person denied it: approval", 1},
		{"a person allows it for longer", world{policy: ask, person: "session"}, allow, "remembered", 1},
		{"policy denies what a person allows", world{policy: ask, person: "once", changed: true, then: deny}, deny, "by rule", 1},
		{"policy allows what a person allows", world{policy: ask, person: "once", changed: true, then: allow}, allow, "by rule", 1},
		{"policy changes before an answer", world{policy: ask, person: "superseded", changed: true, then: allow}, allow, "by rule", 1},
		{"an allow is not recorded", world{policy: allow, record: "broken"}, deny, "could not be recorded", 0},
		{"a deny is not recorded", world{policy: deny, record: "broken"}, deny, "could not be recorded", 0},
		{"a person's allow is not recorded", world{policy: ask, person: "once", record: "broken"}, deny, "could not be recorded", 1},
		{"a remembered allow is not recorded", world{policy: ask, kept: true, remembered: allow, record: "broken"}, deny, "could not be recorded", 0},
		{"the session ends", world{policy: allow, record: "over"}, deny, "the session has ended", 0},
	} {
		for _, kind := range []approval.Kind{approval.Network, approval.Request, approval.Secret, approval.MCP, approval.Hostexec} {
			t.Run(string(kind)+"/"+tt.name, func(t *testing.T) {
				got, asked := decide(t, kind, tt.in)
				if got.Effect != tt.want || !strings.Contains(got.FullReason(), tt.says) || asked != tt.asked {
					t.Errorf("%s %q after %d questions, want %s %q after %d", got.Effect, got.FullReason(), asked, tt.want, tt.says, tt.asked)
				}
			})
		}
	}
}

// decide brings one case to the court, and holds what every ruling has: it is recorded
// once, before it is counted, and counted once; what is not recorded is not allowed.
func decide(t *testing.T, kind approval.Kind, in world) (court.Ruling, int) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var order []string
	records, err := recorder.Open(filepath.Join(t.TempDir(), "audit"), slog.New(slog.DiscardHandler), func(audit.Event) { order = append(order, "record") })
	if err != nil {
		t.Fatal(err)
	}
	if in.record == "broken" {
		if err := records.Close(); err != nil {
			t.Fatal(err)
		}
	} else {
		defer func() { _ = records.Close() }()
	}
	questions, answered := 0, false
	var queue *approval.Queue
	queue = approval.New(approval.Options{
		Timeout: func() time.Duration {
			if in.person == "timeout" {
				return time.Millisecond
			}
			return time.Hour
		},
		Opened: func(_ context.Context, i approval.Item) error {
			if in.person == "unrecorded" {
				return errors.New("no space")
			}
			if i.Session != "s" || i.Rule != "a rule (a file)" || i.Policy != "digest" || i.Reason != "by rule" || i.Kind != kind {
				t.Errorf("the question is %+v", i.Ask)
			}
			questions++
			return nil
		},
		Decide: func(_ context.Context, _ approval.Item, r approval.Reply) error {
			answered = true
			if r.Scope != approval.Once { // what the guardian makes of it
				in.kept, in.remembered = true, policy.Allow
			}
			return nil
		},
		Ended: func(approval.Item) {},
		Changed: func(i approval.Item) {
			if i.Outcome != approval.Pending {
				return
			}
			reply := approval.Reply{Allow: in.person != "never", Scope: approval.Once, By: "a test", Nonce: i.Nonce}
			switch in.person {
			case "session":
				reply.Scope = approval.Session
				fallthrough
			case "once", "never":
				go func() {
					if _, err := queue.Answer(context.WithoutCancel(ctx), i.ID, reply); err != nil {
						t.Error(err)
					}
				}()
			case "leaves":
				leave()
			case "superseded":
				answered = true
				go queue.Review(func(approval.Item) bool { return true })
			case "timeout":
			default:
				t.Errorf("a person is asked")
			}
		},
	})
	if in.person != "unwatched" {
		defer queue.Watch("")()
	}
	s := &sessionctx.Context{
		Info: api.SessionInfo{ID: "1", Name: "s", Project: "/p"}, Tally: stats.New(api.SessionSummary{}),
		Records: records, Queue: queue,
	}
	c := court.Case{
		Policy: func() court.Ruling {
			effect := in.policy
			if answered && in.changed {
				effect = in.then
			}
			v := policy.Verdict{Effect: effect, Rule: "a rule", Origin: source.Position{Source: "a file"}, Reason: "by rule"}
			return court.Ruling{Verdict: v, Digest: "digest"}
		},
		Remembered: func(v policy.Verdict) (policy.Verdict, bool) {
			if v.Effect == policy.Deny || !in.kept {
				return v, false
			}
			return policy.Verdict{Effect: in.remembered, Reason: "remembered"}, true
		},
		Question: func(policy.Verdict) (approval.Ask, error) {
			a := approval.Ask{Kind: kind, Subject: "what", Title: "may it"}
			if in.person == "large" {
				return a, court.Fits("its text has", 9, 8)
			}
			return a, nil
		},
		Event: func(r court.Ruling) (audit.Event, bool) {
			if in.record == "over" {
				leave()
			}
			return audit.Event{Kind: audit.Exec, Action: "try", SessionID: "1", Verdict: r.Effect.String(), Reason: r.FullReason()}, true
		},
		Count: func(court.Ruling) { order = append(order, "count") },
	}
	if in.person == "unasked" {
		c.Question = nil
	}
	r := court.Decide(ctx, s, c)
	want := "record count"
	switch {
	case in.record == "broken":
		want = "count"
	case in.person == "leaves", in.record == "over":
		want = "" // the context has ended: nothing is recorded any more, and nothing happens
		r.Unrecorded = nil
	}
	if got := strings.Join(order, " "); got != want || (r.Unrecorded != nil) != (in.record == "broken") {
		t.Errorf("%q, want %q: %v", got, want, r.Unrecorded)
	}
	return r, questions
}
