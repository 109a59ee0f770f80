package policy

import (
	_ "embed"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"cloister/internal/source"
	"cloister/policy/cedarhost"
	"cloister/policy/cedartext"
	"cloister/policy/filerule"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

//go:embed schema.cedarschema
var schemaText []byte

const (
	actionConnect = "NetworkConnect"
	actionRequest = "HttpRequest"
)

// actionResources is the vocabulary of actions with the resources each takes,
// as schema.cedarschema has it (testdata/leash.cedar uses all of it).
func actionResources() map[string][]types.EntityType {
	files := []types.EntityType{"Dir", "File", "Glob"}
	return map[string][]types.EntityType{
		"FileOpen": files, "FileOpenReadOnly": files, "FileOpenReadWrite": files,
		"ProcessExec": append(slices.Clip(files), "Program"),
		actionConnect: {"Host"}, actionRequest: {"Host"}, actionRewrite: {"Host"},
		actionSecret: {"Secret"},
		actionMCP:    {"MCP::Server", "MCP::Tool", "MCP::Prompt", "MCP::Resource", "MCP::Feature"},
	}
}

// cedarSet is what the Cedar files come to.
type cedarSet struct {
	connect cedarGroup       // those that judge connections
	request cedarGroup       // those that judge requests
	rewrite cedarGroup       // those that change requests
	mcp     cedarGroup       // those that judge calls to MCP servers
	secret  cedarGroup       // those that judge uses of secrets
	listing cedarGroup       // what these say of listings
	hosts   *cedarhost.Index // every Host that they name
	rules   []*rule          // what is a plain rule in Cedar's words
	ports   []uint16         // that any of them names
	notes   []Note
	memo    memo

	statements []Statement // every policy of the files, in their order

	declared   []*MCPServer      // the servers whose calls are judged
	named      []types.EntityUID // of MCP, that any policy names
	attributes []string          // of arguments, that any policy reads
}

// cedarGroup are the policies of one action, in the order of the files.
type cedarGroup []*cedarPolicy

// cedarPolicy is one policy of a file, made ready.
type cedarPolicy struct {
	tier     tier
	id       cedar.PolicyID
	policy   *cedar.Policy
	readPort bool                // a condition reads context.port
	named    []cedarhost.Literal // every Host it names
	atPorts  []cedarhost.Literal // of these, Host::"name:port"
	verdict  Verdict
	change   *Rewrite // of a permit to rewrite
}

// All makes a group a cedar.PolicyIterator.
func (g cedarGroup) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, p := range g {
			if !yield(p.id, p.policy) {
				return
			}
		}
	}
}

func loadCedar(files []CedarFile, servers map[string]*MCPServer) (*cedarSet, []error) {
	set := &cedarSet{hosts: cedarhost.NewIndex(), declared: slices.Collect(maps.Values(servers))}
	if len(files) == 0 {
		return set, nil
	}
	sch := &schema.Schema{}
	if err := sch.UnmarshalCedar(schemaText); err != nil {
		return set, []error{fmt.Errorf("policy: read schema: %w", err)}
	}
	resolved, err := sch.Resolve()
	if err != nil {
		return set, []error{fmt.Errorf("policy: resolve schema: %w", err)}
	}
	var errs []error
	seen := map[string]bool{}
	var names []cedartext.Name
	for _, f := range files {
		if seen[f.Name] {
			errs = append(errs, &source.Problem{Position: source.Position{File: f.Name}, Msg: "two policy files have this name"})
			continue
		}
		seen[f.Name] = true
		complain := func(c *cedartext.Complaint) {
			errs = append(errs, &source.Problem{Position: source.Position{File: f.Name, Line: c.Line, Column: c.Column},
				Msg: c.Msg, Hint: c.Hint})
		}
		toks, tooMuch := cedartext.Read(f.Text)
		if tooMuch != nil {
			complain(tooMuch)
			continue
		}
		list, err := cedar.NewPolicyListFromBytes(f.Name, f.Text)
		if err != nil {
			complain(cedartext.Explain(f.Text, toks, err, slices.Sorted(maps.Keys(actionResources()))))
			continue
		}
		for i, p := range list {
			end := len(f.Text)
			if i+1 < len(list) {
				end = list[i+1].Position().Offset
			}
			l := &loader{set: set, file: f.Name, n: i + 1, validator: validate.New(resolved)}
			l.toks = between(toks, p.Position().Offset, end)
			l.load(p)
			errs = append(errs, l.errs...)
			names = append(names, l.called)
		}
	}
	return set, append(errs, cedartext.Twice(names)...)
}

func between(toks []cedartext.Token, from, to int) []cedartext.Token {
	lo, _ := slices.BinarySearchFunc(toks, from, func(t cedartext.Token, o int) int { return t.Offset - o })
	hi, _ := slices.BinarySearchFunc(toks, to, func(t cedartext.Token, o int) int { return t.Offset - o })
	return toks[lo:hi]
}

// loader checks one policy and makes it ready.
type loader struct {
	set       *cedarSet
	file      string
	n         int
	validator *validate.Validator
	toks      []cedartext.Token // of this policy

	name     string
	called   cedartext.Name
	origin   source.Position
	hosts    []cedarhost.Literal
	mentions map[types.EntityType]bool // resource types that the policy names
	readPort bool
	// attributes of arguments that a condition reads; openly says that it reads any.
	attributes []string
	openly     bool
	errs       []error
}

func (l *loader) load(p *cedar.Policy) {
	l.mentions = map[types.EntityType]bool{}
	l.origin = source.Position{Source: l.file, File: l.file, Line: p.Position().Line, Column: p.Position().Column}
	l.name = l.file + "#" + strconv.Itoa(l.n)
	l.called.At = l.origin
	if id := p.Annotations()["id"]; id != "" {
		l.name, l.called.Own, l.called.At = string(id), true, l.place(l.toks, "id")
	}
	st := Statement{Rule: l.name, Origin: l.origin}
	l.called.Name, l.called.Word = l.name, st.Residue()
	tier := l.tier(p)
	tree := *(*xast.Policy)(p.AST())
	l.person(&tree, tier)
	actions := l.actions(tree.Action)
	l.checkWords(&tree, actions)
	if len(l.errs) > 0 {
		return
	}
	if _, all := tree.Action.(xast.ScopeTypeAll); all {
		actions = l.fitting()
	}
	l.rewrite(&tree)
	if len(l.errs) > 0 {
		return
	}
	// No one knows the types of a tool's arguments beforehand. Where a condition
	// finds another than it wants it errs, and that denies.
	if err := l.validator.Policy("", &tree); err != nil && !l.openly {
		l.mistyped(err)
		return
	}
	_, all := tree.Action.(xast.ScopeTypeAll)
	l.keep(&tree, tier, actions, !all)
}

// fitting are the actions of a policy that names none. Connections are always
// among them: "unless" about folders is true of every host. Requests are not:
// what says nothing of them is decided when the connection is.
func (l *loader) fitting() []string {
	all := actionResources()
	mentioned := func(t types.EntityType) bool { return l.mentions[t] }
	about := false
	for _, resources := range all {
		about = about || slices.ContainsFunc(resources, mentioned)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name == actionRequest {
			continue
		}
		if !about || name == actionConnect || slices.ContainsFunc(all[name], mentioned) {
			out = append(out, name)
		}
	}
	return out
}

// keep files the policy under what can be done with it today; explicit: it names
// its actions.
func (l *loader) keep(tree *xast.Policy, t tier, actions []string, explicit bool) {
	v := Verdict{Effect: t.effect(), Rule: l.name, Origin: l.origin}
	place := quotePlace(l.origin)
	switch t {
	case tierForbid:
		v.Reason = "denied by the Cedar policy \"" + l.name + "\"" + place
		v.Hints = []string{"remove or narrow the forbid" + place + "; nothing overrides a forbid"}
	case tierAsk:
		v.Reason = "the Cedar policy \"" + l.name + "\"" + place + " asks a person first"
	case tierAllow, tierPerson, tierRefused, tiers:
		v.Reason = "allowed by the Cedar policy \"" + l.name + "\"" + place
	}
	var held []holding
	for _, a := range actions {
		held = append(held, l.keepAction(tree, t, a, v, explicit))
	}
	l.state(tree, t, held)
}

// keepAction files the policy for one of its actions, and says what keeps it;
// explicit: it names its actions.
func (l *loader) keepAction(tree *xast.Policy, t tier, action string, v Verdict, explicit bool) holding {
	switch {
	case action == actionConnect:
		l.keepPolicy(&l.set.connect, tree, t, v)
		return kept(action, "the gate: every connection is judged by its name")
	case action == actionRequest:
		l.keepPolicy(&l.set.request, tree, t, v)
		return kept(action, "the gate: connections are opened and each request is judged")
	case filerule.Is(action):
		return l.holdFiles(tree, t, action)
	case action == actionMCP:
		h := l.keepMCP(tree, t, v) // a declared server may be called otherwise than by a connection
		if l.keepServer(tree, t, v) {
			return kept(action, "the gate: no connection to that server, and no call to it")
		}
		return h
	case action == actionSecret:
		return l.keepSecret(tree, t, v, explicit)
	case action == actionRewrite:
		l.keepRewrite(tree, t, v, explicit)
		return kept(action, "the gate: connections are opened, and requests changed")
	}
	return unkept(action, "nothing knows this action")
}

func (l *loader) note(t tier, action, msg string) {
	l.set.notes = append(l.set.notes, Note{Origin: l.origin, Rule: l.name, Effect: t.effect(), Action: action, Msg: msg})
}

func (l *loader) keepPolicy(group *cedarGroup, tree *xast.Policy, t tier, v Verdict) {
	p := &cedarPolicy{
		tier: t, verdict: v, readPort: l.readPort, named: l.hosts,
		id:     cedar.PolicyID(strconv.Itoa(len(*group))),
		policy: cedar.NewPolicyFromAST((*ast.Policy)(tree)),
	}
	for _, h := range l.hosts {
		l.set.hosts.Add(h)
		if h.Port != 0 {
			p.atPorts = append(p.atPorts, h)
			l.set.ports = append(l.set.ports, h.Port)
		}
		if t == tierAllow && h.Pattern.String() == "*" {
			l.note(t, actionConnect, "permits every host")
		}
	}
	if _, all := tree.Resource.(xast.ScopeTypeAll); all && t == tierAllow && len(tree.Conditions) == 0 {
		l.note(t, actionConnect, "permits every host")
	}
	if l.readPort {
		l.set.ports = append(l.set.ports, l.portsCompared(tree)...)
	}
	*group = append(*group, p)
}

// portsCompared are the numbers a policy names with their neighbours: between
// two of them its verdict cannot change.
func (l *loader) portsCompared(tree *xast.Policy) []uint16 {
	var out []uint16
	eachNode(tree, func(n xast.IsNode) {
		v, ok := n.(xast.NodeValue)
		if !ok {
			return
		}
		if long, ok := v.Value.(types.Long); ok {
			for _, p := range []int64{int64(long) - 1, int64(long), int64(long) + 1} {
				if p > 0 && p < 1<<16 && len(out) < 300 {
					out = append(out, uint16(p))
				}
			}
		}
	})
	return out
}

// keepServer enforces a forbid of a whole MCP server as what Leash makes of
// it: no connection to that host. It reports whether it could.
func (l *loader) keepServer(tree *xast.Policy, t tier, v Verdict) bool {
	servers, ok := wholeServers(tree)
	if !ok || t != tierForbid {
		return false
	}
	rules := make([]*rule, 0, len(servers))
	for _, s := range servers {
		r, err := compileRule(Rule{Effect: Deny, Domain: s, Origin: l.origin}, false)
		if err != nil {
			return false // a server by URL or name; the MCP gateway will know it
		}
		r.name, r.verdict = v.Rule, v
		rules = append(rules, r)
	}
	l.set.rules = append(l.set.rules, rules...)
	return true
}

// wholeServers are the servers of a policy that says nothing but
// "resource in [MCP::Server::…]".
func wholeServers(tree *xast.Policy) ([]string, bool) {
	uids, plain := resourcesOf(tree)
	if _, all := tree.Principal.(xast.ScopeTypeAll); !all || !plain || len(uids) == 0 {
		return nil, false
	}
	out := make([]string, 0, len(uids))
	for _, u := range uids {
		if u.Type != "MCP::Server" {
			return nil, false
		}
		out = append(out, string(u.ID))
	}
	return out, true
}
