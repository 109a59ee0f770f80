package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"

	"cloister/internal/authority"
	"cloister/internal/source"
)

// RewriteRule changes headers of the allowed requests that Rule speaks of; its
// Effect is Allow, and it allows nothing.
type RewriteRule struct {
	Rule
	Set    map[string]string
	Remove []string
}

// Rewrite is one header that an allowed request gets or loses.
type Rewrite struct {
	Header string
	Value  string
	Remove bool
	// Rule and Origin say who wants it.
	Rule   string
	Origin source.Position
}

// String is the change without its value, which may be no one's business.
func (r Rewrite) String() string {
	if r.Remove {
		return "removes " + r.Header
	}
	return "sets " + r.Header
}

// rewriter is a RewriteRule made ready.
type rewriter struct {
	rule    *rule
	changes []Rewrite
}

// rewriters are the rules of the YAML kind; a Snapshot has them by their hosts.
type rewriters struct {
	all []rewriter
	ix  *index
}

func compileRewrites(in []RewriteRule) (*rewriters, []error) {
	out := &rewriters{}
	var errs []error
	var rules []*rule
	for i, w := range in {
		w.Effect = Allow
		r, err := compileRule(w.Rule, false)
		if err == nil {
			err = w.check()
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.order = i
		r.name = "rewrite" + strings.TrimPrefix(r.name, r.tier.verb())
		one := rewriter{rule: r}
		for _, name := range slices.Sorted(maps.Keys(w.Set)) {
			one.changes = append(one.changes, Rewrite{Header: name, Value: w.Set[name], Rule: r.name, Origin: w.Origin})
		}
		for _, name := range w.Remove {
			one.changes = append(one.changes, Rewrite{Header: name, Remove: true, Rule: r.name, Origin: w.Origin})
		}
		out.all, rules = append(out.all, one), append(rules, r)
	}
	if len(rules) > 0 {
		out.ix = newIndex(rules)
	}
	return out, errs
}

func (w RewriteRule) check() error {
	if len(w.Set)+len(w.Remove) == 0 {
		return problem(w.Origin, "a rewriting rule sets or removes a header", `for example set: {X-Team: blue}`)
	}
	if w.Tunnel || w.Bytes != 0 {
		return problem(w.Origin, "tls and bytes belong to an allow rule", "")
	}
	seen := map[string]bool{}
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(w.Set)), w.Remove) {
		if err := checkRewritten(name, w.Set[name]); err != nil {
			return problem(w.Origin, err.Error(), "")
		}
		if lower := strings.ToLower(name); seen[lower] {
			return problem(w.Origin, "the header "+name+" stands here twice", "")
		} else {
			seen[lower] = true
		}
	}
	return nil
}

// checkRewritten refuses what no header can be, and what is the gate's own.
func checkRewritten(name, value string) error {
	switch {
	case !isFieldName(name):
		return fmt.Errorf("%q is no name of a header", name)
	case gateOwns(name):
		return fmt.Errorf("the header %s is the gate's own", name)
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return fmt.Errorf("the value of the header %s holds a control character", name)
	}
	return nil
}

// gateOwns reports whether a header is checked or written anew for every request.
func gateOwns(name string) bool {
	switch strings.ToLower(name) {
	case "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "expect", "trailer", "keep-alive",
		"proxy-connection", "proxy-authorization", "sec-websocket-key", "sec-websocket-accept", "sec-websocket-version",
		"sec-websocket-extensions":
		return true
	}
	return false
}

// matching are the rules that speak of a request, or where http is nil of some
// request to a destination.
func (w *rewriters) matching(a authority.Authority, http *HTTP) []rewriter {
	if w == nil || w.ix == nil {
		return nil
	}
	var all []*rule
	f := found{all: &all}
	w.ix.naming(a, &f)
	slices.SortFunc(all, func(a, b *rule) int { return a.order - b.order })
	var out []rewriter
	for _, r := range all {
		if r.atPort(a.Port()) && (http == nil || r.request == nil || r.request.match(http, tierAllow)) {
			out = append(out, w.byOrder(r.order))
		}
	}
	return out
}

func (w *rewriters) byOrder(order int) rewriter {
	i := slices.IndexFunc(w.all, func(one rewriter) bool { return one.rule.order == order })
	return w.all[i]
}

// rewrites reports whether requests to a destination may be changed, so that its
// connections are opened.
func (s *Snapshot) rewrites(a authority.Authority) bool {
	if len(s.rewriters.matching(a, nil)) > 0 {
		return true
	}
	if s.cedar == nil {
		return false
	}
	return slices.ContainsFunc(s.cedar.rewrite, func(p *cedarPolicy) bool {
		return p.change != nil && (len(p.named) == 0 || p.names(a)) && p.speaksOf(a)
	})
}

// changes are what an allowed request is changed by. Each header is changed once,
// by the first rule that speaks of it; a forbid takes a change away. A policy that
// cannot be evaluated is an error: no one knows what it would have changed.
func (s *Snapshot) changes(r Request) ([]Rewrite, *cedarFound) {
	var out []Rewrite
	for _, w := range s.rewriters.matching(r.Authority, &r.HTTP) {
		out = append(out, w.changes...)
	}
	if s.cedar != nil && len(s.cedar.rewrite) > 0 {
		var broken *cedarFound
		if out, broken = s.cedar.changes(r, out); broken != nil {
			return nil, broken
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(c Rewrite) bool {
		name := strings.ToLower(c.Header)
		twice := seen[name]
		seen[name] = true
		return twice
	}), nil
}

// changes asks Cedar about each change: the given ones, which a forbid may take
// away, and those that its own permits name.
func (s *cedarSet) changes(r Request, given []Rewrite) (out []Rewrite, broken *cedarFound) {
	var forbids cedarGroup
	for _, p := range s.rewrite {
		if p.tier == tierForbid {
			forbids = append(forbids, p)
		}
	}
	type candidate struct {
		change Rewrite
		permit *cedarPolicy
	}
	var all []candidate
	for _, c := range given {
		all = append(all, candidate{change: c})
	}
	for _, p := range s.rewrite {
		if p.change != nil && p.speaksOf(r.Authority) && (len(p.named) == 0 || p.names(r.Authority)) {
			all = append(all, candidate{*p.change, p})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	if why := unreadable(r.HTTP); why != nil {
		if all = slices.DeleteFunc(all, func(c candidate) bool {
			return c.permit == nil && len(forbids) == 0
		}); len(all) > 0 {
			return nil, &cedarFound{broken: s.rewrite[0], diagnostic: why.Error()}
		}
		return given, nil
	}
	for _, c := range all {
		f := s.ask(r, func(r Request) cedarFound { return s.askRewrite(r, c.change, c.permit, forbids) })
		switch {
		case f.broken != nil:
			return nil, &f
		case f.best[tierForbid] != nil, c.permit != nil && f.best[tierAllow] == nil:
		default:
			out = append(out, c.change)
		}
	}
	return out, nil
}

// askRewrite asks about one change: its own permit, if it has one, and every
// forbid.
func (s *cedarSet) askRewrite(r Request, c Rewrite, permit *cedarPolicy, forbids cedarGroup) cedarFound {
	group := slices.Clone(forbids)
	if permit != nil {
		group = append(group, permit)
	}
	w := s.world(r)
	context := w.carry(r)
	context["header"], context["value"] = types.String(strings.ToLower(c.Header)), types.String(c.Value)
	return s.rewrite.classify(group, w, w.request(r, actionRewrite, context), r.Authority)
}

// keepRewrite files a policy about rewriting: a forbid as it is, a permit with the
// header that its conditions name.
func (l *loader) keepRewrite(tree *xast.Policy, t tier, v Verdict, explicit bool) {
	var change *Rewrite
	if t != tierForbid {
		header, value, ok := l.instruction(tree)
		switch {
		case !explicit:
			return // a permit of everything names no header
		case t == tierAsk:
			l.bad("ask", "nobody is asked about a header", "leave out @ask")
			return
		case !ok:
			l.note(t, actionRewrite,
				`names no header to set, so it changes nothing: `+
					`write context.header == "NAME" && context.value == "VALUE", where the value "" removes it`)
			return
		}
		if err := checkRewritten(header, value); err != nil {
			l.badCondition(strconv.Quote(header), err.Error(), "")
			return
		}
		change = &Rewrite{Header: header, Value: value, Remove: value == "", Rule: v.Rule, Origin: v.Origin}
	}
	lowered := *tree
	lowered.Conditions = slices.Clone(tree.Conditions)
	for i := range lowered.Conditions {
		lowered.Conditions[i].Body = lowerHeaders(lowered.Conditions[i].Body)
	}
	p := &cedarPolicy{
		tier: t, verdict: v, readPort: l.readPort, named: l.hosts, change: change,
		id:     cedar.PolicyID(strconv.Itoa(len(l.set.rewrite))),
		policy: cedar.NewPolicyFromAST((*ast.Policy)(&lowered)),
	}
	for _, h := range l.hosts {
		l.set.hosts.Add(h)
		if h.Port != 0 {
			p.atPorts = append(p.atPorts, h)
		}
	}
	l.set.rewrite = append(l.set.rewrite, p)
}

// instruction is the header and the value that a permit names by ==, joined by &&.
func (l *loader) instruction(tree *xast.Policy) (header, value string, ok bool) {
	var gotHeader, gotValue bool
	var walk func(n xast.IsNode)
	walk = func(n xast.IsNode) {
		switch n := n.(type) {
		case xast.NodeTypeAnd:
			walk(n.Left)
			walk(n.Right)
		case xast.NodeTypeEquals:
			if s, is := compared(n.Left, n.Right, "header"); is && !gotHeader {
				header, gotHeader = s, true
			}
			if s, is := compared(n.Left, n.Right, "value"); is && !gotValue {
				value, gotValue = s, true
			}
		default: // says when, not what
		}
	}
	for _, c := range tree.Conditions {
		if c.Condition == xast.ConditionWhen {
			walk(c.Body)
		}
	}
	return header, value, gotHeader && gotValue
}

// compared is the text that context.KEY is compared with.
func compared(left, right xast.IsNode, key types.String) (string, bool) {
	for _, side := range [][2]xast.IsNode{{left, right}, {right, left}} {
		if isContext(side[0], key) {
			if v, ok := side[1].(xast.NodeValue); ok {
				s, ok := v.Value.(types.String)
				return string(s), ok
			}
		}
	}
	return "", false
}

func isContext(n xast.IsNode, key types.String) bool {
	access, ok := n.(xast.NodeTypeAccess)
	return ok && isVariable(access.Arg, "context") && access.Value == key
}

// lowerHeaders spells the names that context.header is compared with in lower
// case, as it is spelled itself: names of headers have no case.
func lowerHeaders(n xast.IsNode) xast.IsNode {
	switch n := n.(type) {
	case xast.NodeTypeAnd:
		n.Left, n.Right = lowerHeaders(n.Left), lowerHeaders(n.Right)
		return n
	case xast.NodeTypeOr:
		n.Left, n.Right = lowerHeaders(n.Left), lowerHeaders(n.Right)
		return n
	case xast.NodeTypeNot:
		n.Arg = lowerHeaders(n.Arg)
		return n
	case xast.NodeTypeIfThenElse:
		n.If, n.Then, n.Else = lowerHeaders(n.If), lowerHeaders(n.Then), lowerHeaders(n.Else)
		return n
	case xast.NodeTypeEquals:
		n.Left, n.Right = lowerText(n.Left, n.Right), lowerText(n.Right, n.Left)
		return n
	case xast.NodeTypeNotEquals:
		n.Left, n.Right = lowerText(n.Left, n.Right), lowerText(n.Right, n.Left)
		return n
	case xast.NodeTypeContains:
		n.Left = lowerText(n.Left, n.Right)
		return n
	default:
		return n
	}
}

// lowerText is n in lower case where it stands beside context.header.
func lowerText(n, beside xast.IsNode) xast.IsNode {
	if !isContext(beside, "header") {
		return n
	}
	switch n := n.(type) {
	case xast.NodeValue:
		if s, ok := n.Value.(types.String); ok {
			n.Value = types.String(strings.ToLower(string(s)))
		}
		return n
	case xast.NodeTypeSet:
		elements := slices.Clone(n.Elements)
		for i := range elements {
			elements[i] = lowerText(elements[i], beside)
		}
		n.Elements = elements
		return n
	default:
		return n
	}
}

// print writes the rule as the Cedar that says the same, one policy a change.
func (w rewriter) print(b *strings.Builder) {
	for _, c := range w.changes {
		fmt.Fprintf(b, "\n// %s — %s\n", comment(w.rule.name), comment(w.rule.origin.String()))
		condition := w.rule.condition()
		if w.rule.request != nil {
			condition += w.rule.request.condition()
		}
		fmt.Fprintf(b, "permit (principal, action == Action::%q, resource)\nwhen { %s && context.header == %s && "+
			"context.value == %s };\n",
			actionRewrite, condition, cedarText(c.Header), cedarText(c.Value))
	}
}
