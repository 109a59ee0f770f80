package policy

import (
	"slices"

	"cloister/policy/cedarhost"

	"github.com/cedar-policy/cedar-go/types"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"
)

// rewrite brings what a policy says about resources to one form, which Cedar
// then evaluates: resource in ENTITY with canonical names. Leash reads "=="
// and "in" as the same, a host with a wildcard or a port is never *equal* to a
// resource, so in Cedar's own reading such a forbid would never match.
//
// A use of resource that is neither in, == nor is, is refused: it could
// compare a spelling.
func (l *loader) rewrite(tree *xast.Policy) {
	switch sc := tree.Resource.(type) {
	case xast.ScopeTypeEq:
		tree.Resource = xast.ScopeTypeIn{Entity: canonicalUID(sc.Entity)}
	case xast.ScopeTypeIn:
		tree.Resource = xast.ScopeTypeIn{Entity: canonicalUID(sc.Entity)}
	case xast.ScopeTypeIsIn:
		tree.Resource = xast.ScopeTypeIsIn{Type: sc.Type, Entity: canonicalUID(sc.Entity)}
	case xast.ScopeTypeAll, xast.ScopeTypeIs:
	}
	conditions := slices.Clone(tree.Conditions)
	for i := range conditions {
		conditions[i].Body = l.rewriteNode(conditions[i].Body)
	}
	tree.Conditions = conditions
}

func (l *loader) rewriteNode(n xast.IsNode) xast.IsNode {
	switch n := n.(type) {
	case xast.NodeTypeAnd:
		n.Left, n.Right = l.rewriteNode(n.Left), l.rewriteNode(n.Right)
		return n
	case xast.NodeTypeOr:
		n.Left, n.Right = l.rewriteNode(n.Left), l.rewriteNode(n.Right)
		return n
	case xast.NodeTypeNot:
		n.Arg = l.rewriteNode(n.Arg)
		return n
	case xast.NodeTypeIfThenElse:
		n.If, n.Then, n.Else = l.rewriteNode(n.If), l.rewriteNode(n.Then), l.rewriteNode(n.Else)
		return n
	case xast.NodeTypeIs:
		if isVariable(n.Left, "resource") {
			return n
		}
	default: // whatever else there is may not speak of resource, as is seen below
	}
	if in, ok := l.rewriteResource(n); ok {
		return in
	}
	xast.Inspect(xast.NewNode(n), func(n xast.IsNode) bool {
		if isVariable(n, "resource") {
			l.badCondition("resource", "resource is used in a way that cannot be judged",
				`write resource in [Host::"…"], resource == Host::"…" or resource is Host`)
			return false
		}
		return true
	})
	return n
}

// rewriteResource handles the comparisons of resource with entities.
func (l *loader) rewriteResource(n xast.IsNode) (xast.IsNode, bool) {
	var left, right xast.IsNode
	var is types.EntityType
	negate := false
	switch n := n.(type) {
	case xast.NodeTypeIn:
		left, right = n.Left, n.Right
	case xast.NodeTypeIsIn:
		left, right, is = n.Left, n.Entity, n.EntityType
	case xast.NodeTypeEquals:
		left, right = n.Left, n.Right
	case xast.NodeTypeNotEquals:
		left, right, negate = n.Left, n.Right, true
	default:
		return nil, false
	}
	if !isIn(n) && isVariable(right, "resource") {
		left, right = right, left
	}
	if !isVariable(left, "resource") {
		return nil, false
	}
	uids, ok := entities(right)
	if _, set := right.(xast.NodeTypeSet); set && !isIn(n) {
		ok = false // "resource == [ ... ]" compares an entity with a set
	}
	if !ok {
		return nil, false
	}
	if len(uids) == 0 {
		l.badCondition("[", "resource in an empty set never holds", "name what the policy is about")
	}
	out := anyOf(left, uids)
	if is != "" {
		out = out.And(xast.NewNode(xast.NodeTypeIs{Left: left, EntityType: is}))
	}
	if negate {
		out = xast.Not(out)
	}
	return out.AsIsNode(), true
}

func isIn(n xast.IsNode) bool {
	switch n.(type) {
	case xast.NodeTypeIn, xast.NodeTypeIsIn:
		return true
	default:
		return false
	}
}

// anyOf is "resource in [of one type] || resource in [of another]": Leash
// mixes files with folders in one set, which Cedar's strict types refuse.
func anyOf(resource xast.IsNode, uids []types.EntityUID) xast.Node {
	var order []types.EntityType
	byType := map[types.EntityType][]xast.Node{}
	for _, u := range uids {
		u = canonicalUID(u)
		if byType[u.Type] == nil {
			order = append(order, u.Type)
		}
		byType[u.Type] = append(byType[u.Type], xast.EntityUID(u.Type, u.ID))
	}
	out := xast.False()
	for i, t := range order {
		in := xast.NewNode(resource).In(xast.Set(byType[t]...))
		if i == 0 {
			out = in
		} else {
			out = out.Or(in)
		}
	}
	return out
}

// entities are the entity literals of a node that is nothing else.
func entities(n xast.IsNode) ([]types.EntityUID, bool) {
	switch n := n.(type) {
	case xast.NodeValue:
		u, ok := n.Value.(types.EntityUID)
		return []types.EntityUID{u}, ok
	case xast.NodeTypeSet:
		var out []types.EntityUID
		for _, e := range n.Elements {
			u, ok := entities(e)
			if !ok || len(u) != 1 {
				return nil, false
			}
			out = append(out, u...)
		}
		return out, true
	default:
		return nil, false
	}
}

func canonicalUID(u types.EntityUID) types.EntityUID {
	u = unalias(u)
	if u.Type != "Host" {
		return u
	}
	lit, err := cedarhost.Parse(string(u.ID))
	if err != nil {
		return u // checkWords has refused it
	}
	return lit.UID()
}
