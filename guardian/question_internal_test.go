package guardian

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloister/api"
	"cloister/approval"
	"cloister/egress/verdict"
	"cloister/guardian/court"
	"cloister/guardian/sessionctx"
	"cloister/hostexec"
	"cloister/internal/authority"
	"cloister/policy"
	"cloister/session/stats"
)

// What a person is asked about is shown whole; what is longer than anybody looks
// at is denied without a question, with the reason.
func TestShownWhole(t *testing.T) {
	at, err := authority.Parse("mcp.example.com", 443)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := policy.Compile(policy.Input{Unlisted: policy.Deny})
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
	l := &live{Context: sessionctx.Context{Tally: stats.New(api.SessionSummary{}), Queue: queue}}
	l.Snapshot.Store(snapshot)

	sent := func(query string) policy.Verdict {
		q := verdict.Query{Kind: verdict.Request, Authority: at, Once: new(verdict.Once), HTTP: &verdict.HTTP{Query: query}}
		r := court.Decide(t.Context(), &l.Context, court.Case{
			Policy: func() court.Ruling {
				return court.Ruling{Verdict: policy.Verdict{Effect: policy.Ask, Judged: true, Reason: "a rule asks"}}
			},
			Question: func(v policy.Verdict) (approval.Ask, error) { return l.question(q, v) },
		})
		return r.Verdict
	}
	small, long := strings.Repeat("a", 8<<10)+"!", strings.Repeat("a", hostexec.MaxShown+1)
	asked = nil
	if v := sent(small); v.Effect != policy.Ask || !strings.Contains(fmt.Sprint(asked), small) {
		t.Errorf("%v, and shown is %.200v", v.Effect, asked)
	}
	asked = nil
	want := "its query has 16385 bytes, and a person is shown 16384 at most"
	if v := sent(long); v.Effect != policy.Deny || !strings.HasSuffix(v.Reason, want) || asked != nil {
		t.Errorf("%v %q, and shown is %.200v", v.Effect, v.Reason, asked)
	}
}
