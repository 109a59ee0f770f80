// Package mcp reads what passes between a program inside and an MCP server, and
// lets through what a judge allows.
//
// The promise: a frame that cannot be read, or that two readers could read in two
// ways, goes nowhere; a call goes up only after the Judge allowed its server, name
// and arguments; what a listing shows is what may be called; a request of a server
// that is not allowed reaches no one, and the server is notified by the program itself
// that it is not served. What is allowed passes as it was written.
//
// It does not know rules (the Judge does), does not speak HTTP (its caller
// does), and cannot see what a server that the program starts for itself does.
//
// Most readers want [Gate.Up], [Gate.Down] and [NewStream].
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloister/policy"
)

// A Call is one thing that is asked of a server, or by it.
type Call struct {
	Feature   policy.Feature
	Method    string
	Name      string // of the tool or prompt, the resource's URI; empty for the others
	Arguments map[string]any
	Raw       []byte // the arguments, or for what a server asks its params, as written
}

// ToolCall is a call of a tool with its arguments, which are an object or nothing.
func ToolCall(name string, arguments []byte) (Call, error) {
	c := Call{Feature: policy.Tool, Method: "tools/call", Name: name, Raw: arguments}
	if len(arguments) == 0 {
		return c, nil
	}
	v, err := parse(arguments)
	if err != nil {
		return c, err
	}
	plain, ok := v.plain().(map[string]any)
	if !ok {
		return c, &SyntaxError{0, "arguments that are no object"}
	}
	c.Arguments = plain
	return c, nil
}

// Strict is an error for a text that is no JSON (RFC 8259), that two readers could take for
// two things, or that is over the bounds of a frame.
func Strict(text []byte) error {
	_, err := parse(text)
	return err
}

// An Answer is the Judge's; its zero value is a deny.
type Answer struct {
	Allow        bool
	Server, Rule string
	Reason       string
	Hints        []string
}

// A Judge decides. It is called concurrently.
type Judge interface {
	// Call decides about one call, and has recorded that. It may wait for a person.
	Call(ctx context.Context, c Call) Answer
	// Shows reports whether a listing may show a tool, prompt or resource.
	Shows(f policy.Feature, name string) bool
	// Listed is given what a server says of itself, or a listing of what may be
	// shown, and gives those back that are not to be, by their names.
	Listed(ctx context.Context, listed []Definition) (withheld []string)
}

// A Gate stands between a program and one server.
type Gate struct {
	Judge Judge
	// Root reports whether a root that the program names may be sent to the server.
	Root func(uri string) bool
}

// A Refused says that nothing goes on.
type Refused struct {
	Status  int // of HTTP: 200 where Answer is the answer to a request
	Verdict Answer
	Answer  []byte // JSON-RPC
}

func (r *Refused) Error() string { return r.Verdict.Reason }

// unreadable is the refusal of a frame for its form.
func unreadable(who string, err error) *Refused {
	v := Answer{Reason: who + " sent a frame that cannot be read as one thing only: " + err.Error()}
	return &Refused{Status: 400, Verdict: v, Answer: failure(nil, codeParse, v)}
}

// Header are the fields of HTTP that repeat what a frame says.
type Header struct{ Method, Name string }

// Up judges a frame of the program. The error is a *Refused; without one the frame
// may go up as it is.
func (g *Gate) Up(ctx context.Context, data []byte, h Header) error {
	f, err := readFrame(data)
	if err != nil {
		return unreadable("the program", err)
	}
	if err := h.check(f); err != nil {
		return unreadable("the program", err)
	}
	for i, m := range f.messages {
		v := g.up(ctx, m)
		if v.Allow {
			continue
		}
		r := &Refused{Status: 403, Verdict: v, Answer: failure(m.id, codeRefused, v)}
		if m.form == request {
			r.Status = 200
		}
		if f.batch {
			r.Answer = g.batchRefused(f, i, v)
		}
		return r
	}
	return nil
}

// batchRefused answers a batch of which nothing is sent, since one of it may not
// be.
func (g *Gate) batchRefused(f *frame, which int, v Answer) []byte {
	var out [][]byte
	for i, m := range f.messages {
		switch {
		case m.form != request:
		case i == which:
			out = append(out, failure(m.id, codeRefused, v))
		default:
			why := fmt.Sprintf("message %d of its batch may not be sent, so none was", which+1)
			out = append(out, failure(m.id, codeRefused, Answer{Server: v.Server, Reason: why}))
		}
	}
	if out == nil {
		return failure(nil, codeRefused, v)
	}
	return list(out)
}

// check holds the fields of HTTP to the frame: a server may obey either.
func (h Header) check(f *frame) error {
	if h.Method == "" && h.Name == "" {
		return nil
	}
	m := f.messages[0]
	name, _ := m.params.get("name").str()
	if uri, ok := m.params.get("uri").str(); ok {
		name = uri
	}
	if f.batch || h.Method != "" && h.Method != m.method || h.Name != "" && h.Name != name {
		return errors.New("its header names another method or name than it does")
	}
	return nil
}

// passing are the methods of a program that ask for nothing but lists, which are
// filtered when they come, and for the state of what was allowed.
var passing = []string{
	"initialize", "ping", "logging/setLevel", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
	"tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "server/discover", "subscriptions/listen",
}

func (g *Gate) up(ctx context.Context, m message) Answer {
	if m.form == response {
		return g.roots(m.result)
	}
	if answers := m.params.get("inputResponses"); answers != nil {
		for i := range answers.items {
			if v := g.roots(&answers.items[i]); !v.Allow {
				return v
			}
		}
	}
	c := Call{Method: m.method}
	switch m.method {
	case "tools/call":
		c.Feature = policy.Tool
	case "prompts/get":
		c.Feature = policy.Prompt
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		c.Feature = policy.Resource
	case "completion/complete":
		return g.completion(m)
	default:
		if slices.Contains(passing, m.method) || strings.HasPrefix(m.method, "notifications/") {
			return Answer{Allow: true}
		}
		return Answer{Reason: fmt.Sprintf("the method %.60q is none that rules speak of", m.method)}
	}
	key := "name"
	if c.Feature == policy.Resource {
		key = "uri"
	}
	var ok bool
	if c.Name, ok = m.params.get(key).str(); !ok {
		return Answer{Reason: m.method + " without " + key}
	}
	if args := m.params.get("arguments"); args != nil && args.kind != null {
		if args.kind != object {
			return Answer{Reason: m.method + " with arguments that are no object"}
		}
		c.Raw = args.raw
		c.Arguments, _ = args.plain().(map[string]any)
	}
	return g.Judge.Call(ctx, c)
}

// completion asks about the arguments of a prompt or resource: it may if that may
// be used.
func (g *Gate) completion(m message) Answer {
	ref := m.params.get("ref")
	if name, ok := ref.get("name").str(); ok && ref.get("uri") == nil && g.Judge.Shows(policy.Prompt, name) {
		return Answer{Allow: true}
	}
	if uri, ok := ref.get("uri").str(); ok && ref.get("name") == nil && g.Judge.Shows(policy.Resource, uri) {
		return Answer{Allow: true}
	}
	return Answer{Reason: "completion/complete for a prompt or resource that may not be used"}
}

// roots holds the roots that a program tells to those that it may.
func (g *Gate) roots(result *value) Answer {
	roots := result.get("roots")
	if roots == nil {
		return Answer{Allow: true}
	}
	for i := range roots.items {
		uri, ok := roots.items[i].get("uri").str()
		if !ok || g.Root == nil || !g.Root(uri) {
			return Answer{Reason: fmt.Sprintf("the root %.200q lies outside the project", uri)}
		}
	}
	return Answer{Allow: true}
}

// Down judges a frame of the server and gives what of it goes down: nil for
// nothing. The error is a *Refused.
func (g *Gate) Down(ctx context.Context, data []byte) ([]byte, error) {
	f, err := readFrame(data)
	if err != nil {
		return nil, unreadable("the server", err)
	}
	var out [][]byte
	same := true
	for _, m := range f.messages {
		next, changed, err := g.down(ctx, m)
		if err != nil {
			return nil, unreadable("the server", err)
		}
		same = same && !changed
		if next != nil {
			out = append(out, next)
		}
	}
	switch {
	case same:
		return data, nil
	case len(out) == 0:
		return nil, nil
	case f.batch:
		return list(out), nil
	}
	return out[0], nil
}

// down is what of one message goes down, and whether that is another than came.
func (g *Gate) down(ctx context.Context, m message) (out []byte, changed bool, err error) {
	switch m.form {
	case notification:
		if strings.HasPrefix(m.method, "notifications/") {
			return m.value.raw, false, nil
		}
		return nil, true, nil
	case request:
		if v := g.served(ctx, m.method, m.params); !v.Allow {
			return unserved(m.id), true, nil
		}
		return m.value.raw, false, nil
	case response:
	}
	if m.result == nil || m.result.kind != object {
		return m.value.raw, false, nil
	}
	if err := m.result.exactly("tools", "prompts", "resources", "resourceTemplates", "inputRequests",
		"serverInfo", "instructions"); err != nil {
		return nil, false, err
	}
	if asks := m.result.get("inputRequests"); asks != nil {
		for i := range asks.items {
			method, _ := asks.items[i].get("method").str()
			if v := g.served(ctx, method, asks.items[i].get("params")); !v.Allow {
				return failure(m.id, codeRefused, v), true, nil
			}
		}
	}
	if m.result.get("serverInfo") != nil || m.result.get("instructions") != nil {
		if len(g.Judge.Listed(ctx, []Definition{some(Itself, m.result, []string{"serverInfo", "instructions"})})) > 0 {
			v := Answer{Reason: "the server says something else of itself than when it was pinned: cloister mcp inspect " +
				"shows it"}
			return failure(m.id, codeRefused, v), true, nil
		}
	}
	result, changed, err := g.listing(ctx, *m.result)
	if err != nil || !changed {
		return m.value.raw, false, err
	}
	return m.value.with("result", result.raw), true, nil
}

// listing leaves out of a result what may not be used.
func (g *Gate) listing(ctx context.Context, result value) (_ value, changed bool, err error) {
	for _, l := range []struct {
		key, name string
		feature   policy.Feature
	}{{"tools", "name", policy.Tool}, {"prompts", "name", policy.Prompt}, {"resources", "uri", policy.Resource},
		{"resourceTemplates", "uriTemplate", policy.Resource}} {
		listed := result.get(l.key)
		if listed == nil || listed.kind != array {
			continue
		}
		kept := g.shown(ctx, listed, l.name, l.feature)
		if len(kept) == len(listed.items) {
			continue
		}
		if result, err = parse(result.with(l.key, list(kept))); err != nil {
			return result, false, err
		}
		changed = true
	}
	return result, changed, nil
}

// shown are the entries of a list that may be used. Of two names that look alike
// the second is left out.
func (g *Gate) shown(ctx context.Context, listed *value, key string, f policy.Feature) [][]byte {
	var names []string
	var kept []*value
	for i := range listed.items {
		item := &listed.items[i]
		name, ok := item.get(key).str()
		if !ok || !g.Judge.Shows(f, templated(key, name)) || slices.ContainsFunc(names, func(n string) bool {
			return n == name || f == policy.Tool && policy.LookAlike(n, name)
		}) {
			continue
		}
		names, kept = append(names, name), append(kept, item)
	}
	var withheld []string
	if len(kept) > 0 {
		var all []Definition
		for i, item := range kept {
			if f == policy.Resource {
				all = append(all, some(Key(f, names[i]), item, read))
			} else {
				all = append(all, define(Key(f, names[i]), item))
			}
		}
		withheld = g.Judge.Listed(ctx, all)
	}
	out := make([][]byte, 0, len(kept))
	for i, item := range kept {
		if !slices.Contains(withheld, Key(f, names[i])) {
			out = append(out, item.raw)
		}
	}
	return out
}

// templated is a template of URIs as one of them: what it stands for is judged
// again when it is used.
func templated(key, name string) string {
	if key != "uriTemplate" {
		return name
	}
	return strings.Map(func(r rune) rune {
		if r == '{' || r == '}' {
			return '_'
		}
		return r
	}, name)
}

// served judges what a server asks of the program.
func (g *Gate) served(ctx context.Context, method string, params *value) Answer {
	c := Call{Method: method}
	switch method {
	case "ping":
		return Answer{Allow: true}
	case "sampling/createMessage":
		c.Feature = policy.Sampling
	case "elicitation/create":
		c.Feature = policy.Elicitation
	case "roots/list":
		c.Feature = policy.Roots
	default:
		return Answer{Reason: fmt.Sprintf("the server asks for %.60q, which no rule speaks of", method)}
	}
	if params != nil {
		c.Raw = params.raw
	}
	return g.Judge.Call(ctx, c)
}

// unserved stands in the place of a server's request that may not reach the
// program: a method that no program has, so that its answer, which goes up as
// every answer does, is that it has none.
func unserved(id json.RawMessage) []byte {
	return slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"method":"cloister/refused"}`))
}
