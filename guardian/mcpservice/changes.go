package mcpservice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cloister/approval"
	"cloister/audit"
	"cloister/guardian/court"
	"cloister/hostexec"
	"cloister/internal/termsafe"
	"cloister/mcp"
	"cloister/policy"
)

// unchanged holds a call to the definition that a person knows; where the server
// describes itself in another way, a person is asked for that first.
func (j *judge) unchanged(ctx context.Context, c mcp.Call) (r court.Ruling, known bool) {
	keys := []string{mcp.Itself}
	switch c.Feature {
	case policy.Tool, policy.Prompt, policy.Resource:
		keys = append(keys, mcp.Key(c.Feature, c.Name))
	case policy.Sampling, policy.Elicitation, policy.Roots:
	}
	var changes []mcp.Change
	for _, key := range keys {
		change, err := j.d.pins.Changed(j.pinned(), key)
		if err != nil {
			return court.Ruling{Verdict: policy.Verdict{Rule: "pin", Reason: err.Error()}, Digest: j.d.Digest()}, false
		}
		if change != nil {
			changes = append(changes, *change)
		}
	}
	if len(changes) == 0 {
		return r, true
	}
	v := court.Judge(j.d.Snapshot.Load(), j.request(c))
	if v.Effect == policy.Deny || v.WouldDeny {
		return r, true // policy refuses it whatever its definition is
	}
	r = j.took(ctx, changes)
	return r, r.Allowed()
}

// mostChanged is how many changed tools a person is asked about at once.
const mostChanged = 8

// took asks a person whether changed tools may be used as they are now.
func (j *judge) took(ctx context.Context, changes []mcp.Change) court.Ruling {
	names := make([]string, 0, len(changes))
	digests := map[string]string{}
	for _, c := range changes {
		names, digests[c.Tool] = append(names, c.Tool), c.New.Digest
	}
	what := strings.Join(names, ", ")
	r := court.Decide(ctx, j.d.Context, court.Case{
		Policy: func() court.Ruling {
			return court.Ruling{Digest: j.d.Digest(), Verdict: policy.Verdict{
				Effect: policy.Ask, Rule: "pin", Reason: j.server.Name + " describes " + what +
					" otherwise than when it was pinned",
				Hints: []string{"look at it: cloister mcp inspect " + j.server.Name, "and take it: cloister mcp pin " +
					j.server.Name + " " + strings.Join(names, " ")},
			}}
		},
		Question: func(policy.Verdict) (approval.Ask, error) { return j.changeQuestion(what, changes) },
		Event: func(r court.Ruling) (audit.Event, bool) {
			e := j.event("pin", policy.MCPSubject(j.server.Name, what))
			e.Verdict, e.Reason = policy.Allow.String(), "a person took what the server says now: "+r.Reason
			return e, r.Allowed() // a refusal is recorded with the call or the listing that it stops
		},
	})
	if !r.Allowed() {
		return r
	}
	if _, err := j.d.pins.Take(j.pinned(), digests, r.By); err != nil {
		r.Effect, r.Reason = policy.Deny, err.Error()
	}
	return r
}

// changeQuestion is what a person is asked about changed tools.
func (j *judge) changeQuestion(what string, changes []mcp.Change) (approval.Ask, error) {
	ask := j.ask(policy.MCPSubject(j.server.Name, what), "use "+what+" of "+j.server.Name+" as it is now")
	ask.Scopes, ask.Shared = []approval.Scope{approval.Once}, true
	if len(changes) > mostChanged {
		return ask, fmt.Errorf("those are %d tools, and a person is shown %d at once", len(changes), mostChanged)
	}
	for _, c := range changes {
		for _, d := range differing(c) {
			if err := court.Fits("the "+d.label+" of "+c.Tool+" has", max(len(d.old), len(d.now)),
				hostexec.MaxShown); err != nil {
				return ask, err
			}
			ask.Details = append(ask.Details,
				approval.Detail{Label: c.Tool + ", " + d.label + " before", Text: d.old},
				approval.Detail{Label: c.Tool + ", " + d.label + " now", Text: d.now})
			ask.Marks += termsafe.Marks(d.now)
		}
		ask.Digest += c.New.Digest
	}
	return ask, nil
}

// difference is one member of a definition before and now; "" where it is not there.
type difference struct{ label, old, now string }

// differing are the members that a change is about, the description first.
func differing(c mcp.Change) []difference {
	old, now := c.Old.Members(), c.New.Members()
	names := slices.Sorted(maps.Keys(old))
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, had := old[name]; !had {
			names = append(names, name)
		}
	}
	var out []difference
	for _, name := range names {
		if old[name] == now[name] {
			continue
		}
		d := difference{name, old[name], now[name]}
		switch name {
		case "inputSchema":
			d.label = "arguments"
		case "description":
			out = slices.Insert(out, 0, d)
			continue
		}
		out = append(out, d)
	}
	return out
}
