package corpus

import (
	"math/rand/v2"

	"cloister/escape"
	"cloister/internal/authority"
	"cloister/policy"
)

func po05() escape.Case {
	return escape.Case{
		ID: "PO-05", Class: "order independence", Attack: "a thousand orders of the same rules, ten thousand random requests: the answers do not change, forbid always wins (the comparison with cedar-go is TestIndexAgreesWithCedar)",
		Source: "PO-05", Layers: []string{"policy"},
		Host: func(*escape.World) []escape.Finding {
			rules := []policy.Rule{
				{Effect: policy.Allow, Domain: "*.a.test"}, {Effect: policy.Deny, Domain: "*.b.a.test"}, {Effect: policy.Ask, Domain: "*.c.a.test"},
				{Effect: policy.Allow, Domain: "x.b.a.test"}, {Effect: policy.Allow, CIDR: "203.0.113.0/24"}, {Effect: policy.Deny, CIDR: "203.0.113.128/25"}, {Effect: policy.Allow, Domain: "y.c.a.test", Ports: []uint16{22}},
			}
			hosts := []string{"q.a.test", "x.b.a.test", "y.c.a.test", "a.test", "other.test", "203.0.113.1", "203.0.113.200"}
			random := rand.New(rand.NewPCG(1, 2))
			var first map[string]policy.Effect
			asked, differ, wins := 0, 0, true
			for range 1000 {
				random.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
				s, err := policy.Compile(policy.Input{Rules: rules, Unlisted: policy.Deny})
				if err != nil {
					return escape.NoHost("compile", err)
				}
				now := map[string]policy.Effect{}
				for _, host := range hosts {
					for _, port := range []uint16{22, 443} {
						a, err := authority.Parse(host, port)
						if err != nil {
							return escape.NoHost("parse", err)
						}
						now[a.String()] = policy.Decide(s, policy.Request{Action: policy.NetworkConnect, Authority: a}).Effect
						asked++
					}
				}
				if first == nil {
					first = now
				}
				for k, v := range now {
					if first[k] != v {
						differ++
					}
				}
				wins = wins && now["x.b.a.test:443"] == policy.Deny && now["203.0.113.200:443"] == policy.Deny
			}
			return []escape.Finding{
				found("the order changes nothing", differ == 0, "%d of %d answers", differ, asked),
				found("forbid wins", wins, "it did not"),
				found("control: something is allowed, over 10,000 were asked", first["q.a.test:443"] == policy.Allow && asked > 10000, "%d", asked),
			}
		},
	}
}
