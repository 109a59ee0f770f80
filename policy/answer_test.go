package policy_test

import (
	"testing"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/policy"
)

// The order of DESIGN: forbid, a remembered deny, a remembered allow, ask,
// allow, what no rule names.
func TestOrderOfAnswers(t *testing.T) {
	rule := func(e policy.Effect, domain string, answer bool) policy.Rule {
		return policy.Rule{Effect: e, Domain: domain, Ports: []uint16{443}, Answer: answer, Origin: source.Position{Source: "test"}}
	}
	forbid, refused := rule(policy.Deny, "a.example", false), rule(policy.Deny, "a.example", true)
	person, ask, allow := rule(policy.Allow, "a.example", true), rule(policy.Ask, "a.example", false), rule(policy.Allow, "a.example", false)
	for _, c := range []struct {
		name  string
		rules []policy.Rule
		want  policy.Effect
		says  string
	}{
		{"a forbid over all", []policy.Rule{allow, ask, person, refused, forbid}, policy.Deny, `denied by the rule "deny a.example port 443" at test`},
		{"a remembered deny over an allow", []policy.Rule{allow, ask, person, refused}, policy.Deny, `a person denied "deny a.example port 443" at test`},
		{"a narrow remembered allow under a wide remembered deny", []policy.Rule{person, rule(policy.Deny, "*.example", true)}, policy.Deny, `a person denied "deny *.example port 443" at test`},
		{"a remembered allow over an ask", []policy.Rule{allow, ask, person}, policy.Allow, `allowed by the rule "allow a.example port 443" at test`},
		{"an ask over an allow", []policy.Rule{allow, ask}, policy.Ask, `the rule "ask a.example port 443" at test asks a person first`},
		{"a remembered deny of another port", []policy.Rule{allow, {Effect: policy.Deny, Domain: "a.example", Ports: []uint16{80}, Answer: true}}, policy.Allow, `allowed by the rule "allow a.example port 443" at test`},
	} {
		s, err := policy.Compile(policy.Input{Rules: c.rules, Unlisted: policy.Ask})
		if err != nil {
			t.Fatal(err)
		}
		to, err := authority.ParseHostPort("a.example:443", 443)
		if err != nil {
			t.Fatal(err)
		}
		v := policy.Decide(s, policy.Request{Action: policy.NetworkConnect, Authority: to})
		if v.Effect != c.want || v.Reason != c.says {
			t.Errorf("%s: %s: %s", c.name, v.Effect, v.Reason)
		}
	}
}
