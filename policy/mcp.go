package policy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"cloister/internal/urlpath"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"
)

// MCPCall is one call to an MCP server, or by it.
type MCPCall struct {
	Server  string
	Feature Feature
	Name    string // of the tool or prompt, the resource's URI; empty for the others
	// Arguments are what encoding/json makes of them, numbers as json.Number; nil
	// where there are none.
	Arguments map[string]any
}

func (c *MCPCall) subject() string {
	if c.Name == "" {
		return c.Feature.String() + " of " + c.Server
	}
	return c.Feature.String() + " " + c.Name + " of " + c.Server
}

// ShowsMCP reports whether a listing may show what a call would name: whether some
// call of it could be allowed, or asked about.
func (s *Snapshot) ShowsMCP(r Request) bool {
	if s == nil || r.MCP == nil {
		return false
	}
	server := s.servers[r.MCP.Server]
	if server == nil || oddName(r.MCP) != "" {
		return false
	}
	if s.mode != Enforce {
		return true
	}
	effect, rule := server.judge(r.MCP)
	if rule != "" && effect == Deny {
		return false
	}
	var c cedarFound
	if s.cedar != nil && len(s.cedar.listing) > 0 {
		c = s.cedar.askMCP(s.cedar.listing, server, r)
	}
	if c.best[tierForbid] != nil || c.broken != nil {
		return false
	}
	if a, answered := s.answers[MCPSubject(server.Name, r.MCP.Name)]; answered && r.MCP.Feature == Tool {
		return a.Effect != Deny
	}
	return rule != "" || c.best[tierAsk] != nil || c.best[tierAllow] != nil
}

// call judges one call: forbid, a person's deny, a person's allow, ask, allow,
// and what nothing names is denied.
func (s *Snapshot) call(r Request) Verdict {
	server := s.serverOf(r.MCP.Server)
	if server == nil {
		return Verdict{Rule: ruleInvalid, Reason: fmt.Sprintf("no MCP server %q is declared", r.MCP.Server)}
	}
	if why := oddName(r.MCP); why != "" {
		return Verdict{Rule: ruleInvalid, Origin: server.Origin, Reason: r.MCP.subject() + ": " + why}
	}
	var c cedarFound
	if s.cedar != nil && len(s.cedar.mcp) > 0 {
		c = s.cedar.askMCP(s.cedar.mcp, server, r)
	}
	effect, rule := server.judge(r.MCP)
	answer, answered := s.answers[MCPSubject(server.Name, r.MCP.Name)]
	answered = answered && r.MCP.Feature == Tool
	v := Verdict{Effect: effect, Rule: rule, Origin: server.Origin, Diagnostic: c.diagnostic}
	place := quotePlace(server.Origin)
	switch {
	case rule != "" && effect == Deny:
		v.Reason = r.MCP.subject() + " is denied by \"" + rule + "\"" + place
		v.Hints = []string{"take it out of that list" + place}
	case c.best[tierForbid] != nil:
		return withDiagnostic(c.best[tierForbid].verdict, c.diagnostic)
	case c.broken != nil:
		return withDiagnostic(c.broken.brokenVerdict(), c.diagnostic)
	case answered && answer.Effect == Deny:
		v = answer
		v.Reason = "a person denied the " + r.MCP.subject() + quotePlace(answer.Origin)
	case answered:
		v = answer
		v.Reason = "a person allowed the " + r.MCP.subject() + quotePlace(answer.Origin)
	case rule != "" && effect == Ask:
		v.Reason = "\"" + rule + "\"" + place + " asks a person about the " + r.MCP.subject()
	case c.best[tierAsk] != nil:
		return c.best[tierAsk].verdict
	case rule != "":
		v.Reason = r.MCP.subject() + " is allowed by \"" + rule + "\"" + place
	case c.best[tierAllow] != nil:
		return c.best[tierAllow].verdict
	default:
		v.Rule = RuleUnlisted
		v.Reason = "no rule names the " + r.MCP.subject() + ", and what none names is denied"
		v.Hints = server.hints(r.MCP)
	}
	return v
}

func withDiagnostic(v Verdict, d string) Verdict {
	v.Diagnostic = d
	return v
}

// keepMCP files a policy about MCP calls, and says where it holds.
func (l *loader) keepMCP(tree *xast.Policy, t tier, v Verdict) holding {
	p := &cedarPolicy{
		tier: t, verdict: v, readPort: true,
		id: cedar.PolicyID(strconv.Itoa(len(l.set.mcp))), policy: cedar.NewPolicyFromAST((*ast.Policy)(tree)),
	}
	l.set.mcp = append(l.set.mcp, p)
	l.keepListing(tree, p)
	for _, a := range l.attributes {
		if !slices.Contains(l.set.attributes, a) {
			l.set.attributes = append(l.set.attributes, a)
		}
	}
	h := kept(actionMCP, "the gate: each call to a server of mcp.servers is judged")
	servers := l.serversNamed(tree)
	var strangers []string
	for _, name := range servers {
		if !slices.ContainsFunc(l.set.declared, func(s *MCPServer) bool {
			return slices.Contains(s.uids(), serverUID(name))
		}) {
			strangers = append(strangers, name)
		}
	}
	switch {
	case t != tierForbid: // a permit that is not obeyed denies
	case len(strangers) > 0 && len(strangers) == len(servers):
		return unkept(actionMCP, fmt.Sprintf("calls to %s are not read: it is none of mcp.servers in config.yaml",
			strings.Join(strangers, ", ")))
	case len(strangers) > 0:
		h.hold, h.why = InPart, strings.Join(strangers, ", ")+" is none of mcp.servers, so calls to it are not read"
	case len(servers) == 0:
		h.hold, h.why = InPart, "calls to servers that mcp.servers does not name, or that the agent starts inside, are not "+
			"read"
	}
	return h
}

// keepListing files what a policy says of listings, where there are no arguments
// yet: of one that reads them, what it could allow.
func (l *loader) keepListing(tree *xast.Policy, p *cedarPolicy) {
	one := *p
	if l.openly {
		if p.tier == tierForbid {
			return
		}
		open := *tree
		open.Conditions = nil
		one.policy = cedar.NewPolicyFromAST((*ast.Policy)(&open))
	}
	one.id = cedar.PolicyID(strconv.Itoa(len(l.set.listing)))
	l.set.listing = append(l.set.listing, &one)
}

// serversNamed are the servers that a policy speaks of, wherever it does.
func (l *loader) serversNamed(tree *xast.Policy) []string {
	var out []string
	add := func(u types.EntityUID) {
		if u.Type == "MCP::Server" && !slices.Contains(out, string(u.ID)) {
			out = append(out, string(u.ID))
		}
	}
	for _, u := range scopeEntities(tree) {
		add(u)
	}
	eachNode(tree, func(n xast.IsNode) {
		if v, ok := n.(xast.NodeValue); ok {
			if u, ok := v.Value.(types.EntityUID); ok {
				add(u)
			}
		}
	})
	return out
}

// askMCP asks the policies about calls. An error of one denies, as everywhere.
func (s *cedarSet) askMCP(group cedarGroup, server *MCPServer, r Request) cedarFound {
	return s.ask(r, func(r Request) cedarFound {
		// A name that differs from one that a policy reads in its letters' case alone
		// may be the same to the server, and would be none to the policy.
		if odd := lookAlikeKey(r.MCP.Arguments, s.attributes); odd != "" {
			return cedarFound{broken: s.mcp[0],
				diagnostic: fmt.Sprintf("the argument %q is spelled otherwise than the policies spell it", odd)}
		}
		args, err := cedarValue(r.MCP.Arguments)
		if err != nil {
			return cedarFound{broken: s.mcp[0], diagnostic: "the arguments cannot be put in Cedar's words: " + err.Error()}
		}
		w := &world{session: s.world(r).session}
		w.call(server, r.MCP, s.named)
		return group.classify(group, w, cedar.Request{
			Principal: w.session.UID, Action: types.NewEntityUID("Action", actionMCP), Resource: w.host.UID,
			Context: types.NewRecord(types.RecordMap{
				"hostname": types.String(server.Authority.Host()), "server": types.String(server.Name),
				"feature": types.String(r.MCP.Feature.String()), "name": types.String(r.MCP.Name), "arguments": args,
			}),
		}, r.Authority)
	})
}

// call puts what is called into the world, in every entity that policies name it
// by: a tool is in its server, and in each tool of a policy whose stars fit it.
func (w *world) call(server *MCPServer, c *MCPCall, named []types.EntityUID) {
	kind := map[Feature]types.EntityType{Prompt: "MCP::Prompt", Resource: "MCP::Resource"}[c.Feature]
	name := c.Name
	switch c.Feature {
	case Tool:
		kind = "MCP::Tool"
	case Prompt, Resource:
	case Sampling, Elicitation, Roots:
		kind, name = "MCP::Feature", c.Feature.String()
	}
	uid := types.NewEntityUID(kind, types.String(name))
	parents := server.uids()
	for _, u := range named {
		if u.Type == kind && u != uid && (urlpath.Wild(string(u.ID), name) || urlpath.Wild(string(u.ID),
			server.Name+"/"+name)) {
			parents = append(parents, u)
		}
	}
	w.host = types.Entity{UID: uid, Parents: types.NewEntityUIDSet(parents...)}
}

// mostListed bounds a list that policies read: cedar-go's sets are slow where
// an attacker chooses values that fall together.
const mostListed = 1000

// cedarValue is JSON in Cedar's words: whole numbers are Long, others decimal
// where four digits hold them, a list is a set, null an empty record.
func cedarValue(v any) (types.Value, error) {
	switch v := v.(type) {
	case nil:
		return types.NewRecord(nil), nil
	case bool:
		return types.Boolean(v), nil
	case string:
		return types.String(v), nil
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return types.Long(n), nil
		}
		f, err := v.Float64()
		if err != nil || math.IsInf(f, 0) {
			return nil, fmt.Errorf("the number %.40s", string(v))
		}
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return types.Long(int64(f)), nil
		}
		d, err := types.NewDecimalFromFloat(f)
		if err != nil {
			return types.String(v), nil // as it is written; a policy that compares it as a number errs and denies
		}
		return d, nil
	case []any:
		if len(v) > mostListed {
			return nil, fmt.Errorf("a list of more than %d", mostListed)
		}
		out := make([]types.Value, 0, len(v))
		for _, e := range v {
			one, err := cedarValue(e)
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
		return types.NewSet(out...), nil
	case map[string]any:
		out := types.RecordMap{}
		for key, e := range v {
			one, err := cedarValue(e)
			if err != nil {
				return nil, err
			}
			out[types.String(key)] = one
		}
		return types.NewRecord(out), nil
	}
	return nil, fmt.Errorf("a %T", v)
}
