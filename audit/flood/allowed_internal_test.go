package flood

import (
	"strings"
	"testing"
	"time"

	"cloister/audit"
)

// LG-21: whatever a session is allowed, its record grows by a bounded number of bytes,
// and the sums add up to what happened.
func TestAllowedIsBounded(t *testing.T) {
	b, now := New(), time.Now()
	const n = 300_000
	var bytes float64
	var recorded, counted uint64
	var down int64
	take := func(events []audit.Event) {
		for _, e := range events {
			if e.Action != "suppressed" || !strings.Contains(e.Reason, "allowed events (http.request request) of ") || e.Path != "" {
				t.Errorf("%+v", e)
			}
			counted += e.Suppressed
			down += *e.BytesDown
			bytes += size(&e)
		}
	}
	path := "/" + strings.Repeat("a", 2000)
	for i := range n {
		now = now.Add(time.Millisecond)
		one := int64(1)
		e := audit.Event{
			Kind: audit.HTTPRequest, Action: "request", Verdict: "allow", SessionID: "s", Host: []string{"a", "b"}[i%2], Path: path,
			BytesUp: &one, BytesDown: &one, DurationMS: &one,
		}
		record, due := b.Spend(&e, now)
		take(due)
		if record {
			recorded++
			down += *e.BytesDown
			bytes += size(&e)
		}
	}
	take(b.Late(now.Add(time.Hour)))
	take(b.Rest())
	if recorded+counted != n || down != n {
		t.Errorf("%d recorded and %d counted, want %d; %d bytes down", recorded, counted, n, down)
	}
	if most := float64(allowedBurst + 400*allowedRate); bytes > most || recorded < 20_000 {
		t.Errorf("%.0f bytes in %d records, want at most %.0f", bytes, recorded, most)
	}
	// What is asked, answered or refused does not come out of this, nor another session.
	for _, e := range []audit.Event{
		{Kind: audit.ApprovalDecision, Verdict: "allow", SessionID: "s"}, {Kind: audit.MCPCall, Action: "pin", Verdict: "allow", SessionID: "s"},
		{Kind: audit.HTTPRequest, Verdict: "deny", SessionID: "s"}, {Kind: audit.HTTPRequest, Verdict: "allow", SessionID: "t"},
	} {
		if record, _ := b.Spend(&e, now); !record {
			t.Errorf("%+v is not recorded", e)
		}
	}
}

// However many hosts there are, what is counted takes bounded memory.
func TestManyHostsAreOneSum(t *testing.T) {
	b, now := New(), time.Now()
	var recorded int
	for i := range 200_000 {
		e := audit.Event{Kind: audit.NetDNS, Action: "resolve", Verdict: "allow", SessionID: "s", Host: strings.Repeat("h", 200) + string(rune('0'+i%10)) + time.Duration(i).String()}
		if record, _ := b.Spend(&e, now); record {
			recorded++
		}
	}
	if got := len(b.left["s"].counted); got > mostHosts+1 || recorded > allowedBurst/640+mostHosts+1 {
		t.Errorf("%d groups, %d records", got, recorded)
	}
}
