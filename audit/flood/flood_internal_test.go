package flood

import (
	"testing"
	"time"

	"cloister/audit"
)

// LG-04: a million refusals in a minute take a bounded number of records, whose
// numbers add up; a neighbour and what was allowed are recorded one by one.
func TestAMillionRefusals(t *testing.T) {
	b, now := New(), time.Now()
	flood := audit.Event{SessionID: "a", Session: "a", Kind: audit.NetDNS, Verdict: "deny", Reason: "no rule", Host: "x.example"}
	records, counted := 0, uint64(0)
	count := func(record bool, due []audit.Event) {
		if record {
			records++
			counted++
		}
		for _, sum := range due {
			if sum.Action != "suppressed" || sum.Verdict != "deny" || sum.SessionID == "" || sum.Suppressed == 0 {
				t.Errorf("a sum is %+v", sum)
			}
			records++
			counted += sum.Suppressed
		}
	}
	const many = 1_000_000
	for i := range many {
		e := flood
		if i%3 == 0 {
			e.Kind = audit.HTTPRequest
		}
		count(b.Spend(&e, now))
		now = now.Add(time.Minute / many)
		if i%100_000 == 0 {
			for _, e := range []audit.Event{
				{SessionID: "b", Kind: audit.NetConnect, Verdict: "deny"},
				{SessionID: "a", Kind: audit.NetConnect, Verdict: "allow"},
				{SessionID: "a", Kind: audit.ApprovalRequest, Verdict: "ask"},
				{SessionID: "a", Kind: audit.ApprovalDecision, Verdict: "deny"},
				{Kind: audit.ApprovalDecision, Verdict: "deny"},
			} {
				if record, _ := b.Spend(&e, now); !record {
					t.Errorf("%+v is not recorded", e)
				}
			}
		}
	}
	record, due := b.Spend(&audit.Event{SessionID: "a", Kind: audit.SessionStop}, now)
	count(false, due)
	if !record || counted != many {
		t.Errorf("the end is recorded: %t; %d of %d are accounted for", record, counted, many)
	}
	if most := refusalBurst + 60*int(refusalRate) + 30; records > most {
		t.Errorf("%d records, at most %d", records, most)
	}
	t.Logf("%d refusals in a minute: %d records", many, records)
	if rest := b.Rest(); len(rest) != 0 {
		t.Errorf("left over: %+v", rest)
	}
	// A session that floods, rests and goes on is recorded again.
	b = New()
	one := func(now time.Time) (bool, string, []audit.Event) {
		e := flood
		record, due := b.Spend(&e, now)
		return record, e.Reason, due
	}
	last := ""
	for i := range refusalBurst + 5 {
		record, reason, _ := one(now)
		if record != (i <= refusalBurst) {
			t.Fatalf("number %d is recorded: %t", i, record)
		}
		if record {
			last = reason
		}
	}
	// A guardian that is killed here has said that it counts.
	if last != "no rule"+counting {
		t.Errorf("the last record before counting says %q", last)
	}
	if late := b.Late(now.Add(Every / 2)); len(late) != 0 {
		t.Errorf("told too early: %+v", late)
	}
	if late := b.Late(now.Add(Every)); len(late) != 1 || late[0].Suppressed != 4 {
		t.Errorf("told without another refusal: %+v", late)
	}
	if record, reason, due := one(now.Add(time.Minute)); !record || reason != "no rule" || len(due) != 0 {
		t.Errorf("after a minute: %t, %q, %+v", record, reason, due)
	}
}

// What a policy would have a person asked about, where none can be, and opens of a file about which one is, are
// counted, whatever the answer. What the kernel refused, and what a view closes at the start, is not.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		e    audit.Event
		most int
	}{
		{audit.Event{Kind: audit.NetConnect, Verdict: "ask"}, refusalBurst + 1},
		{audit.Event{Kind: audit.MCPCall, Verdict: "ask"}, refusalBurst + 1},
		{audit.Event{Kind: audit.FileDenied, Verdict: "ask", Rule: "key"}, refusalBurst + 1},
		{audit.Event{Kind: audit.FileDenied, Verdict: "deny", Rule: "approval 1234"}, refusalBurst + 1},
		{audit.Event{Kind: audit.FileOpen, Verdict: "allow", Rule: "approval"}, allowedBurst/640 + 1},
		{audit.Event{Kind: audit.FileDenied, Verdict: "deny", Rule: "key"}, 1 << 30},
		{audit.Event{Kind: audit.FileOpen, Verdict: "allow"}, 1 << 30},
	} {
		b, now, records := New(), time.Now(), 0
		for range 200_000 {
			e := c.e
			e.SessionID = "a"
			if record, _ := b.Spend(&e, now); record {
				records++
			}
		}
		if few := c.most < 200_000; few && records > c.most || !few && records != 200_000 {
			t.Errorf("%+v: %d records", c.e, records)
		}
	}
}
