// Package explain tells what a policy would say of one case, in the words of the API.
//
// Promise: it is the judge who is asked, by the same questions as an enforcer asks;
// the answer of a guardian and the one that the CLI gives without one are the same.
//
// It asks no one, connects nowhere and records nothing.
//
// Most readers want [Ask].
package explain

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"cloister/api"
	"cloister/internal/authority"
	"cloister/internal/nearest"
	"cloister/internal/reading"
	"cloister/internal/urlpath"
	"cloister/policy"
	"cloister/policyset"
	"cloister/secret"
)

// OnDisk is `policy explain` by the configuration on disk, for a session that the
// project in the question would have.
func OnDisk(l *policyset.Set, req api.ExplainRequest) (api.Explanation, error) {
	s, err := l.In(req.Project, req.Projects)
	if err != nil {
		return api.Explanation{}, err
	}
	in, err := l.Scope(req.Projects)
	if err != nil {
		return api.Explanation{}, err
	}
	return Ask(s, in, req)
}

// Ask answers one question by a session's policy.
func Ask(s *policy.Snapshot, in *policyset.Scope, req api.ExplainRequest) (api.Explanation, error) {
	if req.MCP != nil {
		return call(s, req)
	}
	if req.File != nil {
		return file(s, req.Project, req.File)
	}
	to, err := authority.ParseHostPort(req.Connect, 443)
	if err != nil {
		return api.Explanation{}, api.BadRequest("explain: %v", err)
	}
	if req.Secret != "" {
		return use(s, in, to, req)
	}
	return Destination(s, to, req), nil
}

// call is what would become of a call to an MCP server. That its tool may
// have changed since it was pinned is not policy: mcp inspect tells it.
func call(s *policy.Snapshot, req api.ExplainRequest) (api.Explanation, error) {
	call := &policy.MCPCall{Server: req.MCP.Server, Name: req.MCP.Name}
	for _, f := range []policy.Feature{policy.Tool, policy.Prompt, policy.Resource, policy.Sampling, policy.Elicitation,
		policy.Roots} {
		if f.String() == cmp.Or(req.MCP.Feature, policy.Tool.String()) {
			call.Feature = f
		}
	}
	if call.Feature == 0 {
		return api.Explanation{}, api.BadRequest("explain: an MCP server has tool, prompt, resource, sampling, elicitation "+
			"and roots, and no %q", req.MCP.Feature)
	}
	if len(req.MCP.Arguments) > 0 {
		d := json.NewDecoder(bytes.NewReader(req.MCP.Arguments))
		d.UseNumber()
		if err := d.Decode(&call.Arguments); err != nil {
			return api.Explanation{}, api.BadRequest("explain: the arguments are no JSON object")
		}
	}
	q := policy.Request{Action: policy.McpCall, Session: req.Session, Project: req.Project, Agent: req.Agent, MCP: call}
	var names []string
	for _, one := range s.MCPServers() {
		if names = append(names, one.Name); one.Name == call.Server {
			q.Authority = one.Authority
		}
	}
	if !q.Authority.IsValid() {
		e := &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: "explain: no MCP server " + call.Server + " is declared", Hints: []string{"see: cloister mcp list"}}
		if near := nearest.Word(call.Server, names); near != "" {
			e.Hints = []string{"did you mean " + near + "?"}
		}
		return api.Explanation{}, e
	}
	subject := "call " + policy.MCPSubject(call.Server, call.Name)
	if call.Feature != policy.Tool {
		subject = call.Feature.String() + " " + policy.MCPSubject(call.Server, call.Name)
	}
	return explained(s, q, subject), nil
}

// use is what would become of a secret whose placeholder stands where its
// binding says, in a request.
func use(s *policy.Snapshot, in *policyset.Scope, to authority.Authority,
	req api.ExplainRequest) (api.Explanation, error) {
	req.Method = cmp.Or(req.Method, http.MethodGet)
	q := policy.Request{Action: policy.SecretUse, Authority: to, Session: req.Session, Project: req.Project,
		Agent: req.Agent, HTTP: HTTP(req)}
	where := secret.Request{Authority: to, Secure: to.Port() != 80, Method: req.Method, Path: q.HTTP.Path,
		BadPath: q.HTTP.BadPath}
	list := policyset.ByName(in.Bindings)[req.Secret]
	subject := "secret " + req.Secret + " in " + req.Method + " " + to.String()
	if len(list) == 0 {
		var names []string
		for name := range policyset.ByName(in.Bindings) {
			names = append(names, name)
		}
		e := &api.Error{
			Status: http.StatusNotFound, Code: api.CodeNotFound, Message: "explain: no secret " + req.Secret + " is bound",
			Hints: []string{"in config.yaml: secrets: [{name: " + req.Secret + ", hosts: [" + to.Host() + "]}]"},
		}
		if near := nearest.Word(req.Secret, names); near != "" {
			e.Hints = append([]string{"did you mean " + near + "?"}, e.Hints...)
		}
		return api.Explanation{}, e
	}
	for _, b := range list {
		if why, _, _ := b.Refuses(where); why == "" {
			q.Use = policyset.Use(req.Secret, b.Place(), b)
			return explained(s, q, subject), nil
		}
	}
	why, origin, hints := secret.WhyNot(list, where)
	return api.Explanation{
		Subject: subject, Authority: to.String(), Effect: policy.Deny.String(), Rule: "secret " + req.Secret, Source: origin,
		Reason: why, Hints: hints, Mode: s.Mode().String(), Digest: s.Digest(),
	}, nil
}

// explained is a verdict about something that is no destination.
func explained(s *policy.Snapshot, q policy.Request, subject string) api.Explanation {
	v := policy.Decide(s, q)
	return api.Explanation{
		Subject: subject, Authority: q.Authority.String(), Effect: v.Effect.String(), Rule: v.Rule, Source: v.Origin.Source,
		File: v.Origin.File, Line: v.Origin.Line, Column: v.Origin.Column, Reason: v.Reason, Hints: v.Hints,
		WouldDeny:  v.WouldDeny,
		Diagnostic: v.Diagnostic, Mode: s.Mode().String(), Digest: s.Digest(),
	}
}

// Destination is what would become of a connection, a request or a login.
func Destination(s *policy.Snapshot, to authority.Authority, req api.ExplainRequest) api.Explanation {
	q := policy.Request{
		Action:    policy.NetworkConnect,
		Authority: to,
		Session:   req.Session,
		Project:   req.Project,
		Agent:     req.Agent,
	}
	if req.Method != "" {
		q.Action, q.HTTP = policy.HTTPRequest, HTTP(req)
	}
	if l := req.Login; l != nil {
		q.Login = &reading.Login{Protocol: l.Protocol, User: l.User, Database: l.Database, Repository: l.Repository,
			Push: l.Push}
		if l.Repository != "" {
			q.Login.Command = "git" // one of its own, whatever its words
		}
	}
	x := policy.Explain(s, q)
	v := x.Verdict
	out := api.Explanation{
		Authority:  to.String(),
		Effect:     v.Effect.String(),
		Rule:       v.Rule,
		Source:     v.Origin.Source,
		File:       v.Origin.File,
		Line:       v.Origin.Line,
		Column:     v.Origin.Column,
		Reason:     v.Reason,
		Hints:      v.Hints,
		Method:     req.Method,
		WouldDeny:  v.WouldDeny,
		Inspect:    v.Inspect,
		Diagnostic: v.Diagnostic,
		Mode:       s.Mode().String(),
		Digest:     s.Digest(),
	}
	switch {
	case req.Method != "" && q.HTTP.BadPath != nil:
		out.Path = req.Path // as it was typed: it has no one spelling
	case req.Method != "":
		out.Path = q.HTTP.Path.Wire()
	}
	if q.Login != nil {
		out.Login = q.Login.String()
	}
	for _, m := range x.Matches {
		out.Matches = append(out.Matches, api.Match{
			Effect: m.Effect.String(), Rule: m.Rule, Place: m.Origin.String(), Reason: strings.TrimSpace(m.Reason),
			Decides: m.Decides, WrongPort: m.WrongPort, Note: m.Note,
		})
	}
	for _, c := range v.Rewrites {
		out.Rewrites = append(out.Rewrites, api.Rewrite{Header: c.Header, Remove: c.Remove, Rule: c.Rule,
			Place: c.Origin.String()})
	}
	return out
}

// HTTP is the request that is asked about.
func HTTP(req api.ExplainRequest) policy.HTTP {
	q := policy.HTTP{Method: req.Method, Query: req.Query, Header: fieldsOf(req.Headers)}
	q.Path, q.BadPath = urlpath.Parse(req.Path) // its query stands apart
	return q
}

// fieldsOf reads header lines.
func fieldsOf(lines []string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ":")
			if !yield(name, strings.Trim(value, " \t")) {
				return
			}
		}
	}
}
