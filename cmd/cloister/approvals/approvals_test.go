package approvals

import (
	"testing"

	"cloister/api"
)

func TestLinesOfAQuestion(t *testing.T) {
	for _, c := range [][2]string{
		{coverLine(api.ApprovalCover{Scope: "project", Text: "a.example:443"}), "project: a.example:443"},
		{coverLine(api.ApprovalCover{Scope: "session", Pattern: "*.example", Text: "all below", Digest: "sha256:1"}),
			"session with --pattern *.example: all below; bound to sha256:1"},
		{stateOf(api.Approval{State: "pending"}), "pending"},
		{stateOf(api.Approval{State: "approved", Scope: "once"}), "approved (once)"},
		{whatOf(api.Decision{Kind: "hostexec", Shown: "npm test", Subject: "sha256:1"}), "npm test"},
		{whatOf(api.Decision{Kind: "hostexec", Subject: "sha256:1"}), "sha256:1"},
		{whatOf(api.Decision{Kind: "connect", Shown: "x", Subject: "a.example:443"}), "a.example:443"},
	} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}

// An unknown scope is refused before any guardian is asked.
func TestScopeOfAnAnswer(t *testing.T) {
	c := (&Commands{}).approvalsAnswer("approve")
	if err := c.Flags().Set("scope", "forever"); err != nil {
		t.Fatal(err)
	}
	err := c.RunE(c, []string{"a1"})
	if err == nil || err.Error() != `approvals approve: --scope "forever" is not known` {
		t.Errorf("%v", err)
	}
}
