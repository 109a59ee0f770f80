package policy

import (
	"fmt"
	"iter"
	"strconv"
	"sync"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"cloister/internal/authority"
)

// cedarFound is what the Cedar policies say of one destination.
type cedarFound struct {
	best       [tiers]*cedarPolicy // the first of each tier, in the files' order
	broken     *cedarPolicy        // the first that could not be evaluated
	wrongPort  *cedarPolicy        // a permit that matches, but not at this port
	diagnostic string
}

// world is the entities of one request: who asks, and what the destination is
// in.
type world struct{ session, host types.Entity }

// Get makes world a types.EntityGetter.
func (w *world) Get(uid types.EntityUID) (types.Entity, bool) {
	switch uid {
	case w.session.UID:
		return w.session, true
	case w.host.UID:
		return w.host, true
	}
	return types.Entity{}, false
}

func (s *cedarSet) request(r Request) (*world, cedar.Request) {
	w := &world{
		session: types.Entity{
			UID: types.NewEntityUID("Session", types.String(r.Session)),
			Parents: types.NewEntityUIDSet(
				types.NewEntityUID("Project", types.String(r.Project)),
				types.NewEntityUID("Agent", types.String(r.Agent))),
		},
		host: types.Entity{
			UID:     types.NewEntityUID("Host", types.String(r.Authority.String())),
			Parents: types.NewEntityUIDSet(s.hosts.matching(r.Authority)...),
		},
	}
	context := types.RecordMap{
		"hostname": types.String(r.Authority.Host()),
		"port":     types.Long(r.Authority.Port()),
	}
	if addr, ok := r.Authority.Addr(); ok {
		if ip, err := types.ParseIPAddr(addr.String()); err == nil {
			context["ip"] = ip
		}
	}
	return w, cedar.Request{
		Principal: w.session.UID,
		Action:    types.NewEntityUID("Action", actionConnect),
		Resource:  w.host.UID,
		Context:   types.NewRecord(context),
	}
}

// remembered bounds a memo. Names come from a program that may invent them, so
// a full memo starts anew: who floods it pays what a first question costs.
const remembered = 1024

// A memo keeps what the Cedar policies said of a request. A set never changes
// and evaluation is pure, so the answer cannot grow old; cedar-go takes
// microseconds and dozens of allocations for it. The zero value is ready.
type memo struct {
	mu    sync.RWMutex
	found map[Request]cedarFound
}

func (m *memo) get(r Request) (cedarFound, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f, ok := m.found[r]
	return f, ok
}

func (m *memo) put(r Request, f cedarFound) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil || len(m.found) >= remembered {
		m.found = map[Request]cedarFound{}
	}
	m.found[r] = f
}

// evaluate is ask, or what ask said before.
func (s *cedarSet) evaluate(r Request) cedarFound {
	if f, ok := s.memo.get(r); ok {
		return f
	}
	f := s.ask(r)
	s.memo.put(r, f)
	return f
}

// ask asks cedar-go, which skips a policy that errors; here an error of
// either kind of policy is kept and denies, since nobody can know what the
// policy would have said.
//
// A panic in an evaluator is such an error too: the guardian must outlive a
// policy file.
func (s *cedarSet) ask(r Request) (f cedarFound) {
	defer func() {
		if p := recover(); p != nil {
			f = cedarFound{broken: s.policies[0], diagnostic: fmt.Sprintf("a Cedar policy cannot be evaluated: %v", p)}
		}
	}()
	w, q := s.request(r)
	return s.classify(s, w, q, r.Authority)
}

func (s *cedarSet) classify(policies cedar.PolicyIterator, w *world, q cedar.Request, a authority.Authority) cedarFound {
	_, d := cedar.Authorize(policies, w, q)
	var f cedarFound
	for _, e := range d.Errors {
		p := s.byID(e.PolicyID)
		if f.broken == nil {
			f.broken = p
			f.diagnostic = "the Cedar policy \"" + p.verdict.Rule + "\"" + quotePlace(p.verdict.Origin) + " cannot be evaluated: " + e.Message
		}
	}
	for _, reason := range d.Reasons {
		p := s.byID(reason.PolicyID)
		switch {
		case !p.speaksOf(a):
			f.wrongPort = p
		case f.best[p.tier] == nil:
			f.best[p.tier] = p
		}
	}
	return f
}

// byID finds a policy by the id that keepConnect gave it, its number.
func (s *cedarSet) byID(id cedar.PolicyID) *cedarPolicy {
	n, err := strconv.Atoi(string(id))
	if err != nil || n < 0 || n >= len(s.policies) {
		return s.policies[0] // cannot be: ids are ours
	}
	return s.policies[n]
}

// speaksOf holds a permit that says nothing of ports to 443 and 80, like a
// rule in YAML: it speaks of another port only if it reads context.port or
// names this destination as Host::"name:port".
func (p *cedarPolicy) speaksOf(a authority.Authority) bool {
	if p.tier == tierForbid || p.readPort || isDefaultPort(a.Port()) {
		return true
	}
	for _, h := range p.atPorts {
		if h.port == a.Port() && h.pattern.Match(a.Host()) {
			return true
		}
	}
	return false
}

func (p *cedarPolicy) brokenVerdict() Verdict {
	return Verdict{
		Rule: p.verdict.Rule, Origin: p.verdict.Origin,
		Reason: "the Cedar policy \"" + p.verdict.Rule + "\"" + quotePlace(p.verdict.Origin) + " cannot be evaluated, so nothing is allowed",
		Hints:  []string{"correct the policy" + quotePlace(p.verdict.Origin)},
	}
}

// All makes one policy a cedar.PolicyIterator.
func (p *cedarPolicy) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) { yield(p.id, p.policy) }
}

// matching are all policies that match, each asked alone: together, a forbid
// hides the permits.
func (s *cedarSet) matching(r Request) []*cedarPolicy {
	w, q := s.request(r)
	var out []*cedarPolicy
	for _, p := range s.policies {
		f := s.classify(p, w, q, r.Authority)
		if f.broken != nil || f.best[p.tier] != nil {
			out = append(out, p)
		}
	}
	return out
}
