package policy_test

import (
	"strings"
	"testing"

	"cloister/policy"
)

// A rule holds for what a request makes a server do besides, not for its path alone.
func TestObjectsAreJudged(t *testing.T) {
	s := compile(t, policy.Input{Rules: []policy.Rule{
		{Effect: policy.Allow, Domain: "mine.s3.eu-west-1.amazonaws.com"},
		{Effect: policy.Allow, Domain: "dav.test", Paths: []string{"/mine/**"}},
		{Effect: policy.Allow, Domain: "plain.test"},
		{Effect: policy.Allow, Domain: "api.test", Paths: []string{"/v1/**"}},
		{Effect: policy.Deny, Domain: "denied.test"},
		{Effect: policy.Deny, Domain: "cased.test", Paths: []string{"/admin/**"}},
		{Effect: policy.Allow, Domain: "cased.test"},
	}})
	for _, tt := range []struct {
		host, text string
		want       policy.Effect
		words      string
	}{
		{"mine.s3.eu-west-1.amazonaws.com", "PUT /k\nx-amz-copy-source: /mine/a", policy.Allow, ""},
		{"mine.s3.eu-west-1.amazonaws.com", "PUT /k\nx-amz-copy-source: /other/a", policy.Deny, "x-amz-copy-source names s3.eu-west-1.amazonaws.com/other/a: "},
		{"mine.s3.eu-west-1.amazonaws.com", "PUT /k?x-amz-copy-source=other%2Fa", policy.Deny, "the query key x-amz-copy-source"},
		{"mine.s3.eu-west-1.amazonaws.com", "PUT /k\nx-amz-copy-source: arn:aws:s3:::x", policy.Deny, "ARN"},
		{"dav.test", "MOVE /mine/a\nDestination: /mine/b", policy.Allow, ""},
		{"dav.test", "MOVE /mine/a\nDestination: https://dav.test/theirs/b", policy.Deny, "Destination names dav.test/theirs/b"},
		{"dav.test", "MOVE /mine/a\nDestination: https://other.test/mine/b", policy.Deny, "other.test/mine/b"},
		{"plain.test", "COPY /a\nDestination: /b", policy.Allow, ""},
		{"plain.test", "COPY /a\nDestination: mailto:x", policy.Allow, ""}, // nothing depends on it
		{"plain.test", "GET /a\nX-Forwarded-Host: denied.test", policy.Deny, "X-Forwarded-Host makes another request of it"},
		{"plain.test", "GET /a\nX-Forwarded-Host: other.test", policy.Allow, ""},
		{"api.test", "GET /v1/a\nX-Forwarded-Host: other.test", policy.Deny, "no rule names"},
		{"api.test", "GET /v1/a\nX-Forwarded-Prefix: /../v2", policy.Deny, "X-Forwarded-Prefix makes"},
		{"api.test", "GET /v1/a\nX-Forwarded-Uri: /v1/b", policy.Allow, ""},
		{"api.test", "GET /v1/a\nX-Forwarded-Uri: /v2/b", policy.Deny, "X-Forwarded-Uri makes"},
		{"api.test", "GET /v1/v2\nScript-Name: /v1", policy.Deny, "Script-Name makes"},
		{"cased.test", "GET /Admin/x", policy.Deny, "denied by the rule"},
		{"cased.test", "GET /admins", policy.Allow, ""},
	} {
		lines := strings.Split(tt.text, "\n")
		method, target, _ := strings.Cut(lines[0], " ")
		v := policy.Decide(s, ask(t, method+" "+tt.host+target, lines[1:]...))
		if v.Effect != tt.want || !strings.Contains(v.Reason, tt.words) {
			t.Errorf("%s %q: %v %q", tt.host, tt.text, v.Effect, v.Reason)
		}
	}
}
