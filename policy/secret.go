package policy

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"

	"cloister/internal/source"
)

// Use is one secret in one request. Its binding is the permission; Cedar policies
// may take it away, or want a person asked first.
type Use struct {
	Name  string // of the secret
	Place string // in the request: header authorization
	// Bound is the binding's own word, with what it is called and where it stands.
	Bound  Effect
	Rule   string
	Origin source.Position
	Reason string
}

// use judges one use of a secret: forbid, ask, the binding.
func (s *Snapshot) use(r Request) Verdict {
	u := r.Use
	v := Verdict{Effect: u.Bound, Rule: u.Rule, Origin: u.Origin, Reason: u.Reason}
	var c cedarFound
	if s.cedar != nil && len(s.cedar.secret) > 0 {
		c = s.cedar.ask(r, s.cedar.askUse)
	}
	switch {
	case u.Bound == Deny:
	case c.best[tierForbid] != nil:
		return withDiagnostic(c.best[tierForbid].verdict, c.diagnostic)
	case c.broken != nil:
		return withDiagnostic(c.broken.brokenVerdict(), c.diagnostic)
	case u.Bound == Allow && c.best[tierAsk] != nil:
		return c.best[tierAsk].verdict
	}
	return v
}

// AsksOfSecrets reports whether a policy has a person asked about uses of secrets.
func (s *Snapshot) AsksOfSecrets() bool {
	return s.cedar != nil && slices.ContainsFunc(s.cedar.secret, func(p *cedarPolicy) bool { return p.tier == tierAsk })
}

// askUse asks the policies about a use of a secret.
func (s *cedarSet) askUse(r Request) cedarFound {
	if why := unreadable(r.HTTP); why != nil {
		return cedarFound{broken: s.secret[0], diagnostic: why.Error()}
	}
	w := s.world(r)
	context := w.carry(r)
	context["place"] = types.String(r.Use.Place)
	w.host = types.Entity{UID: types.NewEntityUID("Secret", types.String(r.Use.Name))}
	return s.secret.classify(s.secret, w, w.request(r, actionSecret, context), r.Authority)
}

// keepSecret files a policy about uses of secrets.
func (l *loader) keepSecret(tree *xast.Policy, t tier, v Verdict, explicit bool) holding {
	if t == tierAllow {
		if explicit {
			l.note(t, actionSecret, fmt.Sprintf("a permit of %s gives no secret away: secrets in config.yaml says where each "+
				"one goes", actionSecret))
		}
		return kept(actionSecret, "nothing is refused by it; where a secret goes is what secrets in config.yaml says")
	}
	l.set.secret = append(l.set.secret, &cedarPolicy{
		tier: t, verdict: v, readPort: true,
		id: cedar.PolicyID(strconv.Itoa(len(l.set.secret))), policy: cedar.NewPolicyFromAST((*ast.Policy)(tree)),
	})
	return kept(actionSecret, "the gate: each use of a secret is judged")
}
