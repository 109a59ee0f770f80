package policy_test

import (
	"fmt"
	"sync"
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
	b.Run("index and one Cedar policy, asked before/exact", func(b *testing.B) {
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
	withCedar := compile(t, policy.Input{Rules: thousand(), Cedar: []policy.CedarFile{{Name: "own.cedar", Text: []byte(
		`forbid (principal, action == Action::"NetworkConnect", resource) when { context.port > 9000 && resource in [Host::"*.example.com"] };`)}}})
	for _, dest := range []string{"api500.service.example.com", "a.b.c.zone507.example.net", "a.bad508.example.org"} {
		req := connect(t, dest)
		if n := testing.AllocsPerRun(100, func() { policy.Decide(s, req) }); n != 0 {
			t.Errorf("%s: %v allocations", dest, n)
		}
		if n := testing.AllocsPerRun(100, func() { policy.Decide(withCedar, req) }); n != 0 {
			t.Errorf("%s with a Cedar file: %v allocations", dest, n)
		}
	}
}

// What a Cedar policy said of one request is not said of another: each of the
// request's parts counts, in any order, also when more was asked than is kept.
func TestCedarAnswersAreNotMixedUp(t *testing.T) {
	s := compile(t, policy.Input{Cedar: []policy.CedarFile{{Name: "own.cedar", Text: []byte(`
permit (principal == Session::"good", action, resource == Host::"a.example");
permit (principal in Project::"/good", action, resource == Host::"b.example");
permit (principal in Agent::"good", action, resource == Host::"c.example:8443");
`)}}})
	ask := func(dest, session, project, agent string) policy.Effect {
		r := connect(t, dest)
		r.Session, r.Project, r.Agent = session, project, agent
		return policy.Decide(s, r).Effect
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	for range 4 {
		wait.Go(func() {
			for i := range 3000 {
				for _, tt := range []struct {
					dest, session, project, agent string
					want                          policy.Effect
				}{
					{"a.example", "good", "", "", policy.Allow},
					{"a.example", "bad", "/good", "good", policy.Deny},
					{"b.example", "good", "/good", "", policy.Allow},
					{"b.example", "good", "/bad", "good", policy.Deny},
					{"c.example:8443", "", "", "good", policy.Allow},
					{"c.example", "", "", "good", policy.Deny},
					{"c.example:8443", "good", "/good", "bad", policy.Deny},
					{fmt.Sprintf("n%d.example", i), "good", "/good", "good", policy.Deny},
				} {
					if got := ask(tt.dest, tt.session, tt.project, tt.agent); got != tt.want {
						t.Errorf("%+v: %v", tt, got)
					}
				}
			}
		})
	}
}
