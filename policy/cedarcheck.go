package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"

	"cloister/internal/authority"
	"cloister/internal/nearest"
	"cloister/internal/source"
	"cloister/policy/cedarhost"
	"cloister/policy/cedartext"
)

// bad reports a wrong word at its place in this policy; where the text does
// not show it (an escape), at the policy's.
func (l *loader) bad(word, msg, hint string) { l.badAmong(l.toks, word, msg, hint) }

// badCondition is bad for a word that the scope has too.
func (l *loader) badCondition(word, msg, hint string) {
	from := slices.IndexFunc(l.toks, func(t cedartext.Token) bool { return t.Text == "when" || t.Text == "unless" })
	l.badAmong(l.toks[max(from, 0):], word, msg, hint)
}

func (l *loader) badAmong(toks []cedartext.Token, word, msg, hint string) {
	l.errs = append(l.errs, problem(l.place(toks, word), msg, hint))
}

func (l *loader) place(toks []cedartext.Token, word string) source.Position {
	o := l.origin
	for _, t := range toks {
		if t.Text == word {
			o.Line, o.Column = t.Line, t.Column
			break
		}
	}
	return o
}

func quoted(s types.String) string { return strconv.Quote(string(s)) }

// tier reads the effect and @ask. An annotation that is nearly @ask would turn
// a question into a permission, so it is an error; others are their author's.
func (l *loader) tier(p *cedar.Policy) tier {
	asks := false
	for _, key := range slices.Sorted(maps.Keys(p.Annotations())) {
		k := string(key)
		switch {
		case k == "ask":
			asks = true
		case nearlyAsk(k):
			l.bad(k, "unknown annotation @"+k, "did you mean @ask?")
		}
	}
	if p.Effect() == cedar.Forbid {
		if asks {
			l.bad("ask", "@ask stands on a forbid", "a question is a permit that waits: write @ask permit")
		}
		return tierForbid
	}
	if asks {
		return tierAsk
	}
	return tierAllow
}

func nearlyAsk(key string) bool {
	letters := []byte(strings.ToLower(key))
	near := nearest.Word(string(letters), []string{"ask"}) != ""
	slices.Sort(letters)
	return near || string(letters) == "aks"
}

// actions are the names of the actions in the scope, nil where it names none.
func (l *loader) actions(scope xast.IsActionScopeNode) []string {
	var uids []types.EntityUID
	switch sc := scope.(type) {
	case xast.ScopeTypeEq:
		uids = append(uids, sc.Entity)
	case xast.ScopeTypeIn:
		uids = append(uids, sc.Entity)
	case xast.ScopeTypeInSet:
		uids = sc.Entities
	case xast.ScopeTypeAll:
		return nil
	}
	known := slices.Sorted(maps.Keys(actionResources()))
	var out []string
	for _, u := range uids {
		switch {
		case u.Type != "Action":
			l.bad(lastPart(u.Type), fmt.Sprintf("%s is not an action", u), `actions are written Action::"NetworkConnect"`)
		case !slices.Contains(known, string(u.ID)):
			l.bad(quoted(u.ID), fmt.Sprintf("unknown action %s", quoted(u.ID)), nearest.Hint(string(u.ID), known))
		case !slices.Contains(out, string(u.ID)):
			out = append(out, string(u.ID))
		}
	}
	return out
}

func lastPart(t types.EntityType) string {
	return string(t[strings.LastIndexByte(string(t), ':')+1:])
}

// contextKeys are the attributes of context, over the policy's actions.
func contextKeys(actions []string) []string {
	keys := []string{}
	for _, a := range actions {
		switch a {
		case actionConnect:
			keys = append(keys, "hostname", "port", "ip")
		case actionRequest:
			keys = append(keys, "hostname", "port", "ip", "session", "agent", "method", "path", "depth", "segments", "headers",
				"query")
		case actionRewrite:
			keys = append(keys, "hostname", "port", "ip", "session", "agent", "method", "path", "depth", "segments", "headers",
				"query", "header", "value")
		case actionSecret:
			keys = append(keys, "hostname", "port", "ip", "session", "agent", "method", "path", "depth", "segments", "headers",
				"query", "place")
		case actionMCP:
			keys = append(keys, "hostname", "server", "feature", "name", argumentsKey)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// checkWords finds the words that mean nothing here. What is left for the
// schema's validator are types.
func (l *loader) checkWords(tree *xast.Policy, actions []string) {
	if _, all := tree.Action.(xast.ScopeTypeAll); all {
		actions = slices.Sorted(maps.Keys(actionResources()))
	}
	for _, u := range scopeEntities(tree) {
		l.checkEntity(u)
	}
	if is, ok := tree.Resource.(xast.ScopeTypeIs); ok {
		l.checkType(is.Type)
	}
	keys := contextKeys(actions)
	eachNode(tree, func(n xast.IsNode) {
		switch n := n.(type) {
		case xast.NodeValue:
			if u, ok := n.Value.(types.EntityUID); ok {
				l.checkEntity(u)
			}
		case xast.NodeTypeIs:
			l.checkType(n.EntityType)
		case xast.NodeTypeIsIn:
			l.checkType(n.EntityType)
		case xast.NodeTypeAccess:
			l.checkKey(n.Arg, n.Value, keys)
		case xast.NodeTypeHas:
			l.checkKey(n.Arg, n.Value, keys)
		case xast.NodeTypeEquals:
			l.checkHostname(n.Left, n.Right)
			l.checkHostname(n.Right, n.Left)
		case xast.NodeTypeNotEquals:
			l.checkHostname(n.Left, n.Right)
			l.checkHostname(n.Right, n.Left)
		case xast.NodeTypeContains:
			l.checkHostname(n.Right, n.Left)
		case xast.NodeTypeLike:
			l.checkLike(n)
		default: // no other node holds a word of ours
		}
	})
}

func (l *loader) checkKey(on xast.IsNode, key types.String, keys []string) {
	if isVariable(on, "context") && !slices.Contains(keys, string(key)) {
		hint := nearest.Hint(string(key), keys)
		if len(keys) == 0 {
			hint = "these actions have no context"
		}
		l.bad(string(key), fmt.Sprintf("unknown attribute context.%s", key), hint)
	}
	l.readPort = l.readPort || isVariable(on, "context") && key == "port"
	l.openly = l.openly || isVariable(on, "context") && key == argumentsKey
	if ofArguments(on) && !slices.Contains(l.attributes, string(key)) {
		l.attributes = append(l.attributes, string(key))
	}
}

// argumentsKey is the attribute of context with what a tool is called with.
const argumentsKey = "arguments"

// ofArguments reports whether a node is context.arguments, or something in it.
func ofArguments(n xast.IsNode) bool {
	for {
		access, ok := n.(xast.NodeTypeAccess)
		if !ok {
			return false
		}
		if isVariable(access.Arg, "context") {
			return access.Value == argumentsKey
		}
		n = access.Arg
	}
}

// person takes the User of Leash's policies for whoever runs cloister, whose every session is:
// Leash too has one person, and judges no principal.
func (l *loader) person(tree *xast.Policy, t tier) {
	var who types.EntityType
	switch sc := tree.Principal.(type) {
	case xast.ScopeTypeEq:
		who = sc.Entity.Type
	case xast.ScopeTypeIn:
		who = sc.Entity.Type
	case xast.ScopeTypeIs:
		who = sc.Type
	case xast.ScopeTypeIsIn:
		who = sc.Type
	case xast.ScopeTypeAll:
	}
	if who == "User" {
		tree.Principal = xast.ScopeTypeAll{}
		l.note(t, "", `a User is whoever runs cloister: it holds for every session (one agent's: principal in Agent::"NAME")`)
	}
}

func entityTypes() []string {
	return []string{"Agent", "Dir", "File", "Glob", "Host", "MCP::Feature", "MCP::Prompt", "MCP::Resource", "MCP::Server",
		"MCP::Tool", "Program", "Project", "Secret", "Session"}
}

func (l *loader) checkType(t types.EntityType) {
	l.mentions[t] = true
	if !slices.Contains(entityTypes(), string(t)) {
		hint := nearest.Hint(string(t), entityTypes())
		if t == "User" {
			hint = `a User stands in the head alone: permit (principal == User::"NAME", …)`
		}
		l.bad(lastPart(t), fmt.Sprintf("unknown type %s", t), hint)
	}
}

// checkEntity checks a name in the scope or a condition and remembers hosts.
func (l *loader) checkEntity(u types.EntityUID) {
	if u.Type == "Action" {
		if _, ok := actionResources()[string(u.ID)]; !ok {
			l.bad(quoted(u.ID), fmt.Sprintf("unknown action %s", quoted(u.ID)),
				nearest.Hint(string(u.ID), slices.Sorted(maps.Keys(actionResources()))))
		}
		return
	}
	c := unalias(u)
	l.mentions[c.Type] = true
	if strings.HasPrefix(string(c.Type), "MCP::") && !slices.Contains(l.set.named, c) {
		l.set.named = append(l.set.named, c)
	}
	switch {
	case strings.HasSuffix(string(u.Type), "::IpRange"):
		l.bad(lastPart(u.Type), fmt.Sprintf("unknown type %s", u.Type),
			`a range is written: context has ip && context.ip.isInRange(ip("203.0.113.0/24"))`)
	case !slices.Contains(entityTypes(), string(c.Type)):
		l.checkType(u.Type)
	case c.Type == "Host":
		lit, err := cedarhost.Parse(string(c.ID))
		if err != nil {
			l.bad(quoted(u.ID), err.Error(), "")
			return
		}
		l.hosts = append(l.hosts, lit)
	}
}

// unalias knows Leash's longer names for the same things.
func unalias(u types.EntityUID) types.EntityUID {
	switch t := string(u.Type); {
	case strings.HasSuffix(t, "::Hostname"), strings.HasSuffix(t, "::Endpoint"):
		u.Type = "Host"
	case strings.HasSuffix(t, "::DnsZone"):
		u.Type = "Host"
		u.ID = "*." + types.String(strings.TrimPrefix(string(u.ID), "*."))
	case strings.HasSuffix(t, "::Directory"):
		u.Type = "Dir"
	case t != "File" && strings.HasSuffix(t, "::File"):
		u.Type = "File"
	}
	return u
}

// checkHostname holds a text that is compared with context.hostname to the
// canonical spelling: another one would never be equal.
func (l *loader) checkHostname(variable, value xast.IsNode) {
	access, ok := variable.(xast.NodeTypeAccess)
	if !ok || !isVariable(access.Arg, "context") || access.Value != "hostname" {
		return
	}
	for _, s := range texts(value) {
		a, err := authority.Parse(string(s), 1)
		switch {
		case err != nil:
			l.bad(quoted(s), "context.hostname can never be this: "+err.Error(), "")
		case a.Host() != string(s):
			l.bad(quoted(s), fmt.Sprintf("context.hostname is never spelled %s", quoted(s)), fmt.Sprintf("write %q", a.Host()))
		}
	}
}

func (l *loader) checkLike(n xast.NodeTypeLike) {
	access, ok := n.Arg.(xast.NodeTypeAccess)
	if !ok || !isVariable(access.Arg, "context") || access.Value != "hostname" {
		return
	}
	s := string(n.Value.MarshalCedar())
	if lower := strings.ToLower(s); lower != s {
		l.bad(s, fmt.Sprintf("context.hostname is never spelled like %s", s), "write "+lower)
	}
}

// texts are the string literals of a value or a set.
func texts(n xast.IsNode) []types.String {
	var out []types.String
	xast.Inspect(xast.NewNode(n), func(n xast.IsNode) bool {
		v, ok := n.(xast.NodeValue)
		if !ok {
			return true
		}
		switch val := v.Value.(type) {
		case types.String:
			out = append(out, val)
		case types.Set:
			for e := range val.All() {
				if s, ok := e.(types.String); ok {
					out = append(out, s)
				}
			}
		}
		return true
	})
	return out
}

func isVariable(n xast.IsNode, name types.String) bool {
	v, ok := n.(xast.NodeTypeVariable)
	return ok && v.Name == name
}

func eachNode(tree *xast.Policy, visit func(xast.IsNode)) {
	for _, c := range tree.Conditions {
		xast.Inspect(xast.NewNode(c.Body), func(n xast.IsNode) bool {
			visit(n)
			return true
		})
	}
}

func scopeEntities(tree *xast.Policy) []types.EntityUID {
	var out []types.EntityUID
	for _, sc := range []any{tree.Principal, tree.Resource} {
		switch sc := sc.(type) {
		case xast.ScopeTypeEq:
			out = append(out, sc.Entity)
		case xast.ScopeTypeIn:
			out = append(out, sc.Entity)
		case xast.ScopeTypeIsIn:
			out = append(out, sc.Entity)
		}
	}
	return out
}
