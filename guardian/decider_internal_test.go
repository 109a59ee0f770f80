package guardian

import (
	"testing"

	"cloister/egress/verdict"
)

// A flow's rule is written as a decision's is: with its place, and not without a name.
func TestRuleOfFlow(t *testing.T) {
	for _, tt := range []struct{ rule, place, want string }{
		{"allow a.test", "config.yaml:7", "allow a.test (config.yaml:7)"},
		{"limit rate_limit.names_per_minute", "", "limit rate_limit.names_per_minute"},
		{"", "config.yaml:7", ""},
		{"", "", ""},
	} {
		if e := new(live).flowEvent(verdict.Flow{Rule: tt.rule, Place: tt.place, Reason: "why", Detail: "what"}); e.Rule != tt.want || e.Reason != "why; what" {
			t.Errorf("%q at %q: %q, %q", tt.rule, tt.place, e.Rule, e.Reason)
		}
	}
}
