// Package decide measures the judge over a thousand rules beside cedar-go over the same.
//
// The call most readers want is [Measure].
package decide

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/policy"
)

// thousand is a policy as a large organisation would have it.
func thousand() []policy.Rule {
	rules := make([]policy.Rule, 0, 1000)
	for i := range 1000 {
		r := policy.Rule{Effect: policy.Allow, Domain: fmt.Sprintf("api%d.service.example.com", i), Origin: source.Position{Source: "config.yaml", Line: i + 1}}
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

// own is a file that a person would write beside their YAML.
const own = `forbid (principal, action == Action::"NetworkConnect", resource) when { resource in [Host::"*.facebook.com"] };
permit (principal, action == Action::"NetworkConnect", resource == Host::"db.example.com:5432") when { context.port == 5432 };
`

// Measure takes so many rounds of each.
func Measure(ctx context.Context, rounds int, add func(subject, contender, unit string, value float64)) error {
	plain, err := policy.Compile(policy.Input{Rules: thousand()})
	if err != nil {
		return err
	}
	both, err := policy.Compile(policy.Input{Rules: thousand(), Cedar: []policy.CedarFile{{Name: "own.cedar", Text: []byte(own)}}})
	if err != nil {
		return err
	}
	naive, err := cedar.NewPolicySetFromBytes("printed", []byte(plain.Cedar()))
	if err != nil {
		return err
	}
	to, err := authority.ParseHostPort("api500.service.example.com:443", 443)
	if err != nil {
		return err
	}
	req := policy.Request{Action: policy.NetworkConnect, Authority: to, Session: "s", Project: "/p", Agent: "claude"}
	list := []struct {
		name string
		do   func()
	}{
		{"cloister", func() { policy.Decide(plain, req) }},
		{"cloister with a Cedar file", func() { policy.Decide(both, req) }},
		{"cedar-go", func() { naively(naive, to) }},
	}
	for range rounds {
		for _, c := range list {
			took, allocs := pace(c.do)
			add("decide", c.name, "µs", took)
			add("decide allocs", c.name, "a decision", allocs)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// pace repeats do for a fifth of a second: microseconds and allocations of one.
func pace(do func()) (micros, allocs float64) {
	var before, after runtime.MemStats
	for range 20 {
		do()
	}
	n := 0
	runtime.ReadMemStats(&before)
	began := time.Now()
	for time.Since(began) < 200*time.Millisecond {
		for range 20 {
			do()
		}
		n += 20
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	// ReadMemStats and the runtime's own work allocate a few objects in all.
	return float64(took.Nanoseconds()) / 1000 / float64(n), float64((after.Mallocs - before.Mallocs) / uint64(n))
}

// naively asks cedar-go as its documentation shows: the host is an entity in
// every pattern that it could match.
func naively(set *cedar.PolicySet, to authority.Authority) {
	labels := strings.Split(to.Host(), ".")
	names := []string{to.Host(), "*"}
	for i := 1; i < len(labels); i++ {
		names = append(names, "*."+strings.Join(labels[i:], "."))
	}
	var parents []types.EntityUID
	for _, n := range names {
		parents = append(parents, types.NewEntityUID("Host", types.String(n)),
			types.NewEntityUID("Host", types.String(fmt.Sprintf("%s:%d", n, to.Port()))))
	}
	uid := types.NewEntityUID("Host", "the destination")
	cedar.Authorize(set, types.EntityMap{uid: {UID: uid, Parents: types.NewEntityUIDSet(parents...)}}, cedar.Request{
		Action: types.NewEntityUID("Action", "NetworkConnect"), Resource: uid,
		Context: types.NewRecord(types.RecordMap{"hostname": types.String(to.Host()), "port": types.Long(to.Port())}),
	})
}
