package policy_test

import (
	"fmt"
	"testing"

	"github.com/cedar-policy/cedar-go"

	"cloister/policy"
)

// thousand is a policy as a large organisation would have it.
func thousand() []policy.Rule {
	var rules []policy.Rule
	for i := range 1000 {
		r := policy.Rule{Effect: policy.Allow, Domain: fmt.Sprintf("api%d.service.example.com", i), Origin: yaml(i + 1)}
		switch i % 10 {
		case 7:
			r.Domain = fmt.Sprintf("*.zone%d.example.net", i)
		case 8:
			r.Effect, r.Domain = policy.Deny, fmt.Sprintf("*.bad%d.example.org", i)
		case 9:
			r.Effect, r.Domain = policy.Ask, fmt.Sprintf("ask%d.example.org", i)
		}
		rules = append(rules, r)
	}
	return rules
}

// BenchmarkDecide: budget < 2 µs, 0 allocations for traffic that a rule names,
// ≥ 10 times cedar-go alone over the same policies (DESIGN, Speed).
func BenchmarkDecide(b *testing.B) {
	s, err := policy.Compile(policy.Input{Rules: thousand()})
	if err != nil {
		b.Fatal(err)
	}
	cases := []struct{ name, dest string }{
		{"exact", "api500.service.example.com"},
		{"wildcard", "a.b.c.zone507.example.net"},
		{"forbid", "a.bad508.example.org"},
		{"unlisted", "a.b.nobody.test"},
		{"address", "203.0.113.7"},
	}
	for _, c := range cases {
		b.Run("index/"+c.name, func(b *testing.B) {
			req := connect(b, c.dest)
			b.ReportAllocs()
			for b.Loop() {
				policy.Decide(s, req)
			}
		})
	}
	withCedar, err := policy.Compile(policy.Input{Rules: thousand(), Cedar: []policy.CedarFile{{Name: "my.cedar", Text: []byte(
		`forbid (principal, action == Action::"NetworkConnect", resource) when { resource in [Host::"*.facebook.com"] };`)}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("index and one Cedar policy/exact", func(b *testing.B) {
		req := connect(b, cases[0].dest)
		b.ReportAllocs()
		for b.Loop() {
			policy.Decide(withCedar, req)
		}
	})
	set, err := cedar.NewPolicySetFromBytes("printed", []byte(s.Cedar()))
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range cases[:4] {
		b.Run("cedar-go naive/"+c.name, func(b *testing.B) {
			a := connect(b, c.dest).Authority
			b.ReportAllocs()
			for b.Loop() {
				entities, req := naiveRequest(a)
				cedar.Authorize(set, entities, req)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	in := policy.Input{Rules: thousand()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := policy.Compile(in); err != nil {
			b.Fatal(err)
		}
	}
}

func TestDecideDoesNotAllocate(t *testing.T) {
	s := compile(t, policy.Input{Rules: thousand()})
	for _, dest := range []string{"api500.service.example.com", "a.b.c.zone507.example.net", "a.bad508.example.org"} {
		req := connect(t, dest)
		if n := testing.AllocsPerRun(100, func() { policy.Decide(s, req) }); n != 0 {
			t.Errorf("%s: %v allocations", dest, n)
		}
	}
}
