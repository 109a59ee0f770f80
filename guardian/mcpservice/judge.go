package mcpservice

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/sessionctx"
	"cloister/hostexec"
	"cloister/internal/termsafe"
	"cloister/mcp"
	"cloister/policy"
)

// judge decides about the calls of one session to one server.
type judge struct {
	d      *Desk
	server *policy.MCPServer
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

// Call is policy, a person where that asks, the record, and then the verdict.
func (j *judge) Call(ctx context.Context, c mcp.Call) mcp.Verdict {
	v, why := j.decide(ctx, c)
	resource := j.server.Name
	if c.Name != "" {
		resource = policy.MCPSubject(resource, c.Name)
	}
	e := j.event(c.Method, resource)
	e.Verdict, e.Rule, e.Reason = v.Effect.String(), v.RuleAt(), v.Reason
	if v.WouldDeny {
		e.Reason = "not enforced, would have been refused: " + v.Reason
	}
	if v.Effect == policy.Ask {
		e.Reason = why + ": " + v.Reason
	}
	if v.Diagnostic != "" {
		e.Reason += "; " + v.Diagnostic
	}
	e.Digest = mcp.Digest(c.Raw)
	if j.recordsText() {
		e.Arguments = string(c.Raw)
	}
	out := mcp.Verdict{Allow: v.Effect == policy.Allow, Server: j.server.Name, Reason: e.Reason, Hints: v.Hints}
	if v.Rule != policy.RuleUnlisted {
		out.Rule = v.RuleAt()
	}
	if err := j.d.Records.Append(ctx, e); err != nil {
		return mcp.Verdict{Server: j.server.Name, Reason: "this could not be recorded, so it may not happen: " + err.Error()}
	}
	if !out.Allow {
		if c.Feature < policy.Sampling { // those of a server end in no refusal of egress
			j.d.tell()
		}
		j.d.Tally.Refused(api.Refusal{
			Host: e.Host, Port: int(e.Port), Effect: v.Effect.String(), Reason: c.Method + " " + c.Name + ": " + e.Reason, Rule: out.Rule, Place: v.Origin.Place(), Hints: v.Hints,
		})
	}
	return out
}

// pinned is the name under which the server's tools are pinned.
func (j *judge) pinned() string { return j.d.Scope.Load().Pinned(j.server.Name, j.d.Info.Project) }

// recordsText says whether the record has arguments as they are.
func (j *judge) recordsText() bool {
	return j.d.Scope.Load().Arguments(j.server.Name) == config.ArgumentsText
}

// decide is policy's word or, where that is ask, a person's. A tool that is not
// what it was when it was pinned is asked about too.
func (j *judge) decide(ctx context.Context, c mcp.Call) (v policy.Verdict, why string) {
	if v, ok := j.unchanged(ctx, c); !ok {
		return v, sessionctx.Nobody
	}
	for {
		snapshot := j.d.Snapshot.Load()
		v := sessionctx.Judge(snapshot, j.request(c))
		if v.Effect != policy.Ask {
			return v, ""
		}
		if len(c.Raw) > hostexec.MaxShown {
			v.Effect = policy.Deny
			v.Reason = fmt.Sprintf("%s; but its arguments have %d bytes, and nobody can look at more than %d", v.Reason, len(c.Raw), hostexec.MaxShown)
			return v, ""
		}
		a := j.d.Queue.Ask(ctx, j.question(c, v, snapshot.Digest()))
		switch a.Outcome {
		case approval.Allowed, approval.Denied:
			j.d.Tally.Asked()
			if a.Reply.Scope == approval.Once {
				effect := policy.Deny
				if a.Outcome == approval.Allowed {
					effect = policy.Allow
				}
				return sessionctx.Answered(v, effect, sessionctx.Word(a)), ""
			}
			// The policy has the answer now.
		case approval.Superseded:
		default:
			return v, sessionctx.End(a.Outcome)
		}
	}
}

// unchanged holds a call to the definition that a person knows; where the server
// tells another, a person is asked for that first.
func (j *judge) unchanged(ctx context.Context, c mcp.Call) (policy.Verdict, bool) {
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
			return policy.Verdict{Rule: "pin", Reason: err.Error()}, false
		}
		if change != nil {
			changes = append(changes, *change)
		}
	}
	if len(changes) == 0 {
		return policy.Verdict{}, true
	}
	v := sessionctx.Judge(j.d.Snapshot.Load(), j.request(c))
	if v.Effect == policy.Deny || v.WouldDeny {
		return policy.Verdict{}, true // it is said anyway
	}
	return j.took(ctx, changes)
}

// mostChanged is how many changed tools a person is asked about at once.
const mostChanged = 8

// took asks a person whether changed tools may be used as they are now.
func (j *judge) took(ctx context.Context, changes []mcp.Change) (policy.Verdict, bool) {
	names := make([]string, 0, len(changes))
	digests := map[string]string{}
	for _, c := range changes {
		names, digests[c.Tool] = append(names, c.Tool), c.New.Digest
	}
	what := strings.Join(names, ", ")
	v := policy.Verdict{
		Effect: policy.Ask, Rule: "pin", Reason: j.server.Name + " tells something else of " + what + " than when it was pinned",
		Hints: []string{"look at it: cloister mcp inspect " + j.server.Name, "and take it: cloister mcp pin " + j.server.Name + " " + strings.Join(names, " ")},
	}
	if len(changes) > mostChanged {
		v.Effect = policy.Deny
		v.Reason += fmt.Sprintf("; but those are %d tools, and nobody can look at more than %d at once", len(changes), mostChanged)
		return v, false
	}
	ask := j.ask(policy.MCPSubject(j.server.Name, what), "use "+what+" of "+j.server.Name+" as it is now", v, j.d.Digest())
	for _, c := range changes {
		for _, d := range differing(c) {
			if size := max(len(d.old), len(d.now)); size > hostexec.MaxShown {
				v.Effect = policy.Deny
				v.Reason += fmt.Sprintf("; but the %s of %s has %d bytes, and nobody can look at more than %d", d.label, c.Tool, size, hostexec.MaxShown)
				return v, false
			}
			ask.Details = append(ask.Details,
				approval.Detail{Label: c.Tool + ", " + d.label + " before", Text: d.old},
				approval.Detail{Label: c.Tool + ", " + d.label + " now", Text: d.now})
			ask.Marks += termsafe.Marks(d.now)
		}
		ask.Digest += c.New.Digest
	}
	ask.Scopes, ask.Shared = []approval.Scope{approval.Once}, true
	a := j.d.Queue.Ask(ctx, j.d.InName(ask))
	switch a.Outcome {
	case approval.Allowed:
		j.d.Tally.Asked()
		if _, err := j.d.pins.Take(j.pinned(), digests, a.Reply.By); err != nil {
			v.Effect, v.Reason = policy.Deny, err.Error()
			return v, false
		}
		e := j.event("pin", policy.MCPSubject(j.server.Name, what))
		e.Verdict, e.Reason = policy.Allow.String(), "a person took what the server says now: "+sessionctx.Word(a)
		j.d.Record(ctx, e)
		return policy.Verdict{}, true
	case approval.Denied:
		j.d.Tally.Asked()
		return sessionctx.Answered(v, policy.Deny, sessionctx.Word(a)), false
	default:
		return v, false
	}
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
	v, ok := j.took(ctx, changed)
	if ok {
		return nil
	}
	for _, c := range changed {
		withheld = append(withheld, c.Tool)
		e := j.event("tools/list", policy.MCPSubject(j.server.Name, c.Tool))
		e.Verdict, e.Rule, e.Reason, e.Digest = policy.Deny.String(), v.Rule, "not shown: "+v.Reason, c.New.Digest
		j.d.Record(context.WithoutCancel(ctx), e)
	}
	return withheld
}

// question is what a person is asked about a call.
func (j *judge) question(c mcp.Call, v policy.Verdict, digest string) *approval.Ask {
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
	ask := j.ask(subject, title, v, digest)
	ask.Wide = "every call of " + c.Name + " of " + j.server.Name + ", with any arguments"
	ask.Digest = mcp.Digest(c.Raw)
	ask.Marks += termsafe.Marks(string(c.Raw))
	if len(c.Raw) > 0 {
		ask.Details = append(ask.Details, approval.Detail{Label: "arguments", Text: string(c.Raw)})
	}
	if c.Feature != policy.Tool {
		ask.Scopes = []approval.Scope{approval.Once}
	}
	return j.d.InName(ask)
}

func (j *judge) ask(subject, title string, v policy.Verdict, digest string) *approval.Ask {
	where := j.server.URL
	if where == "" {
		where = "started by the guardian"
	}
	return &approval.Ask{
		Kind: approval.MCP, Subject: subject, Title: title, Reason: v.Reason, Rule: v.RuleAt(), Policy: digest,
		Marks: termsafe.Marks(subject), Details: []approval.Detail{{Label: "server", Text: j.server.Name + " (" + where + ")"}},
	}
}

// Settled says whether policy has an answer to an ask about a tool by now.
func (d *Desk) Settled(subject string) bool {
	snapshot := d.Snapshot.Load()
	for _, s := range snapshot.MCPServers() {
		tool, ok := strings.CutPrefix(subject, s.Name+"/")
		if !ok {
			continue
		}
		j := judge{d, &s}
		return sessionctx.Judge(snapshot, j.request(mcp.Call{Feature: policy.Tool, Name: tool})).Rule == "allow tool "+subject ||
			sessionctx.Judge(snapshot, j.request(mcp.Call{Feature: policy.Tool, Name: tool})).Rule == "deny tool "+subject
	}
	return false
}
