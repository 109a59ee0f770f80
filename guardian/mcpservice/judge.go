package mcpservice

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/court"
	"cloister/hostexec"
	"cloister/internal/termsafe"
	"cloister/mcp"
	"cloister/policy"
)

// judge decides about the calls of one session to one server.
type judge struct {
	d      *Service
	server *policy.MCPServer
}

// own reports whether the server is Cloister itself.
func (j *judge) own() bool {
	return j.server.Name == policy.OwnServer && j.server.Path == "/" && j.server.URL == ""
}

func (j *judge) event(action, resource string) audit.Event {
	e := j.d.Event()
	e.Kind, e.Action, e.Resource = audit.MCPCall, action, resource
	e.Host, e.Port = j.server.Authority.Host(), j.server.Authority.Port()
	return e
}

func (j *judge) request(c mcp.Call) policy.Request {
	return policy.Request{
		Action: policy.McpCall, Authority: j.server.Authority,
		Session: j.d.Info.Name, Project: j.d.Info.Project, Agent: j.d.Info.Agent,
		MCP: &policy.MCPCall{Server: j.server.Name, Feature: c.Feature, Name: c.Name, Arguments: c.Arguments},
	}
}

// Shows reports whether a listing may show a name.
func (j *judge) Shows(f policy.Feature, name string) bool {
	return j.d.Snapshot.Load().ShowsMCP(j.request(mcp.Call{Feature: f, Name: name}))
}

// Call decides about one call. A tool that is not what it was when it was pinned is asked
// about first.
func (j *judge) Call(ctx context.Context, c mcp.Call) mcp.Answer {
	pin, known := j.unchanged(ctx, c)
	k := j.callCase(c)
	if !known {
		k.Policy = func() court.Ruling { return pin }
	}
	r := court.Decide(ctx, j.d.Context, k)
	out := mcp.Answer{Allow: r.Allowed(), Server: j.server.Name, Reason: reason(r), Hints: r.Hints}
	if r.Rule != policy.RuleUnlisted {
		out.Rule = r.RuleAt()
	}
	return out
}

// callCase is a call for the court.
func (j *judge) callCase(c mcp.Call) court.Case {
	return court.Case{
		Policy: func() court.Ruling {
			snapshot := j.d.Snapshot.Load()
			return court.Ruling{Verdict: court.Judge(snapshot, j.request(c)), Digest: snapshot.Digest()}
		},
		Question: func(policy.Verdict) (approval.Ask, error) { return j.question(c) },
		Event: func(r court.Ruling) (audit.Event, bool) {
			resource := j.server.Name
			if c.Name != "" {
				resource = policy.MCPSubject(resource, c.Name)
			}
			e := j.event(c.Method, resource)
			e.Verdict, e.Rule, e.Reason = r.Effect.String(), r.RuleAt(), reason(r)
			e.Digest = mcp.Digest(c.Raw)
			if j.recordsText() {
				e.Arguments = string(c.Raw)
			}
			return e, true
		},
		Count: func(r court.Ruling) {
			if r.Allowed() {
				return
			}
			if c.Feature < policy.Sampling && !j.own() { // those of a server end in no refusal of egress
				j.d.counted()
			}
			refusal := api.Refusal{
				Host: j.server.Authority.Host(), Port: int(j.server.Authority.Port()), Effect: r.Effect.String(),
				Reason: c.Method + " " + c.Name + ": " + reason(r), Place: r.Origin.Place(), Hints: r.Hints,
			}
			if r.Rule != policy.RuleUnlisted {
				refusal.Rule = r.RuleAt()
			}
			j.d.Tally.Refused(refusal)
		},
	}
}

// reason is the whole reason of a ruling.
func reason(r court.Ruling) string {
	out := r.FullReason()
	if r.WouldDeny {
		out = "not enforced, would have been refused: " + r.Reason
	}
	if r.Diagnostic != "" {
		out += "; " + r.Diagnostic
	}
	return out
}

// pinned is the name under which the server's tools are pinned.
func (j *judge) pinned() string { return j.d.Scope.Load().Pinned(j.server.Name, j.d.Info.Project) }

// recordsText reports whether the record has arguments as they are.
func (j *judge) recordsText() bool {
	return j.d.Scope.Load().Arguments(j.server.Name) == config.ArgumentsText
}

// maxListWait bounds how long a listing waits for a person: clients wait about a
// minute for it.
const maxListWait = 40 * time.Second

// Listed pins what is said for the first time, and asks about what has changed.
func (j *judge) Listed(ctx context.Context, listed []mcp.Definition) (withheld []string) {
	changed, fresh, err := j.d.pins.See(j.pinned(), listed)
	if err == nil && len(fresh) > 0 {
		e := j.event("pin", j.server.Name)
		e.Verdict, e.Reason = policy.Allow.String(), fmt.Sprintf("seen for the first time: %s", strings.Join(fresh, ", "))
		err = j.d.Records.Append(ctx, e)
	}
	if err != nil {
		e := j.event("tools/list", j.server.Name)
		e.Verdict, e.Reason = policy.Deny.String(), "no tool is shown: "+err.Error()
		j.d.Record(ctx, e)
		for _, d := range listed {
			withheld = append(withheld, d.Name)
		}
		return withheld
	}
	if len(changed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	r := j.took(ctx, changed)
	if r.Allowed() {
		return nil
	}
	for _, c := range changed {
		withheld = append(withheld, c.Tool)
		e := j.event("tools/list", policy.MCPSubject(j.server.Name, c.Tool))
		e.Verdict, e.Rule, e.Reason, e.Digest = policy.Deny.String(), r.Rule, "not shown: "+r.FullReason(), c.New.Digest
		j.d.Record(context.WithoutCancel(ctx), e)
	}
	return withheld
}

// question is what a person is asked about a call.
func (j *judge) question(c mcp.Call) (approval.Ask, error) {
	subject, title := policy.MCPSubject(j.server.Name, c.Name), "call "+c.Name+" of "+j.server.Name
	switch c.Feature {
	case policy.Prompt:
		title = "use the prompt " + c.Name + " of " + j.server.Name
	case policy.Resource:
		title = "read " + c.Name + " of " + j.server.Name
	case policy.Sampling, policy.Elicitation, policy.Roots:
		subject = policy.MCPSubject(j.server.Name, c.Method)
		title = "let " + j.server.Name + " ask for " + c.Method
	case policy.Tool:
	}
	ask := j.ask(subject, title)
	ask.Wide = "every call of " + c.Name + " of " + j.server.Name + ", with any arguments"
	ask.Digest = mcp.Digest(c.Raw)
	ask.Marks += termsafe.Marks(string(c.Raw))
	if len(c.Raw) > 0 {
		ask.Details = append(ask.Details, approval.Detail{Label: "arguments", Text: string(c.Raw)})
	}
	if c.Feature != policy.Tool {
		ask.Scopes = []approval.Scope{approval.Once}
	}
	return ask, court.Fits("its arguments have", len(c.Raw), hostexec.MaxShown)
}

func (j *judge) ask(subject, title string) approval.Ask {
	where := j.server.URL
	switch {
	case j.own():
		where = "a client of cloister mcp serve"
	case where == "":
		where = "started by the guardian"
	}
	return approval.Ask{
		Kind: approval.MCP, Subject: subject, Title: title, Marks: termsafe.Marks(subject),
		Details: []approval.Detail{{Label: "server", Text: j.server.Name + " (" + where + ")"}},
	}
}

// Settled reports whether policy has an answer to an ask about a tool by now.
func (d *Service) Settled(subject string) bool {
	snapshot := d.Snapshot.Load()
	servers := snapshot.MCPServers()
	if own, err := policy.Own(); err == nil {
		servers = append(servers, own)
	}
	for _, s := range servers {
		tool, ok := strings.CutPrefix(subject, s.Name+"/")
		if !ok {
			continue
		}
		j := judge{d, &s}
		return court.Judge(snapshot, j.request(mcp.Call{Feature: policy.Tool, Name: tool})).Rule == "allow tool "+subject ||
			court.Judge(snapshot, j.request(mcp.Call{Feature: policy.Tool, Name: tool})).Rule == "deny tool "+subject
	}
	return false
}
