package mcpservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/approval"
	"cloister/guardian/court"
	"cloister/guardian/sessionctx"
	"cloister/hostexec"
	"cloister/internal/authority"
	"cloister/mcp"
	"cloister/policy"
	"cloister/policyset"
	"cloister/session/stats"
)

// What a person is asked about is shown whole; what is longer than anybody looks
// at is denied without a question, with the reason.
func TestShownWhole(t *testing.T) {
	at, err := authority.Parse("mcp.example.com", 443)
	if err != nil {
		t.Fatal(err)
	}
	server := policy.MCPServer{Name: "s", URL: "https://mcp.example.com/mcp", Authority: at, AskTools: []string{"*"}}
	snapshot, err := policy.Compile(policy.Input{Unlisted: policy.Deny, Servers: []policy.MCPServer{server}})
	if err != nil {
		t.Fatal(err)
	}
	var asked []approval.Detail // what the last question shows; nil for no question
	queue := approval.New(approval.Options{
		Timeout: func() time.Duration { return time.Minute },
		Opened: func(_ context.Context, i approval.Item) error {
			asked = i.Details
			return errors.New("one look is enough")
		},
		Ended: func(approval.Item) {}, Changed: func(approval.Item) {},
	})
	defer queue.Watch("")()
	d := New(&sessionctx.Context{Tally: stats.New(api.SessionSummary{}), Queue: queue}, mcp.OpenPins(filepath.Join(t.TempDir(), "pins"), time.Now), nil)
	d.Snapshot.Store(snapshot)
	d.Scope.Store(&policyset.Scope{})
	j := &judge{d, &server}

	called := func(text string) policy.Verdict {
		raw, _ := json.Marshal(map[string]string{"x": text})
		c := j.callCase(mcp.Call{Feature: policy.Tool, Method: "tools/call", Name: "t", Raw: raw})
		c.Event, c.Count = nil, nil
		return court.Decide(t.Context(), d.Context, c).Verdict
	}
	changed := func(n int, text string) policy.Verdict {
		var changes []mcp.Change
		for i := range n {
			def, _ := json.Marshal(map[string]string{"description": text})
			changes = append(changes, mcp.Change{Tool: fmt.Sprint("t", i), New: mcp.Definition{Digest: "d", Text: def}})
		}
		return j.took(t.Context(), changes).Verdict
	}
	small, long := strings.Repeat("a", 8<<10)+"!", strings.Repeat("a", hostexec.MaxShown+1)
	for _, tc := range []struct {
		name string
		try  func(string) policy.Verdict
		want string
	}{
		{"arguments", called, "its arguments have 16393 bytes, and a person is shown 16384 at most"},
		{"a changed tool", func(s string) policy.Verdict { return changed(1, s) }, "the description of t0 has 16385 bytes, and a person is shown 16384 at most"},
	} {
		asked = nil
		v := tc.try(small)
		if v.Effect != policy.Ask || !strings.Contains(fmt.Sprint(asked), small) {
			t.Errorf("%s: %v, and shown is %.200v", tc.name, v.Effect, asked)
		}
		asked = nil
		v = tc.try(long)
		if v.Effect != policy.Deny || !strings.HasSuffix(v.Reason, tc.want) || asked != nil {
			t.Errorf("%s: %v %q, and shown is %.200v", tc.name, v.Effect, v.Reason, asked)
		}
	}
	asked = nil
	if v := changed(mostChanged, "now"); v.Effect != policy.Ask || !strings.Contains(fmt.Sprint(asked), "t7, description now") {
		t.Errorf("%v %q, and shown is %v", v.Effect, v.Reason, asked)
	}
	asked = nil
	if v := changed(mostChanged+1, "now"); v.Effect != policy.Deny || !strings.HasSuffix(v.Reason, "those are 9 tools, and a person is shown 8 at once") || asked != nil {
		t.Errorf("%v %q, and shown is %v", v.Effect, v.Reason, asked)
	}
}

// A question about a change shows each member that differs, before and now.
func TestDifferencesShown(t *testing.T) {
	def := func(text string) mcp.Definition { return mcp.Definition{Digest: text, Text: []byte(text)} }
	got := fmt.Sprint(differing(mcp.Change{
		Old: def(`{"annotations":{"readOnlyHint":true},"description":"old","inputSchema":{},"name":"t","title":"A"}`),
		New: def(`{"annotations":{"readOnlyHint":false},"description":"new","name":"t","outputSchema":{"x":1},"title":"B"}`),
	}))
	want := `[{description old new} {annotations {"readOnlyHint":true} {"readOnlyHint":false}} {arguments {} } {title A B} {outputSchema  {"x":1}}]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
