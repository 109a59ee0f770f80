package policy

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"cloister/internal/authority"
	"cloister/policy/cedarhost"
)

// cedarFound is what the Cedar policies say of one destination.
type cedarFound struct {
	best       [tiers]*cedarPolicy // the first of each tier, in the files' order
	broken     *cedarPolicy        // the first that could not be evaluated
	wrongPort  *cedarPolicy        // a permit that matches, but not at this port
	diagnostic string
	reads      bool // policies about requests may speak of the destination
}

// world is the entities of one request: the caller, what the destination is in,
// and what an HTTP request carries.
type world struct {
	session, host            types.Entity
	segments, headers, query types.Entity
}

// Get makes world a types.EntityGetter.
func (w *world) Get(uid types.EntityUID) (types.Entity, bool) {
	for _, e := range []*types.Entity{&w.session, &w.host, &w.segments, &w.headers, &w.query} {
		if e.UID == uid && uid.Type != "" {
			return *e, true
		}
	}
	return types.Entity{}, false
}

func (s *cedarSet) world(r Request) *world {
	return &world{
		session: types.Entity{
			UID: types.NewEntityUID("Session", types.String(r.Session)),
			Parents: types.NewEntityUIDSet(
				types.NewEntityUID("Project", types.String(r.Project)),
				types.NewEntityUID("Agent", types.String(r.Agent))),
		},
		host: types.Entity{
			UID:     types.NewEntityUID("Host", types.String(r.Authority.String())),
			Parents: types.NewEntityUIDSet(s.hosts.Matching(r.Authority)...),
		},
	}
}

func (w *world) request(r Request, action types.String, context types.RecordMap) cedar.Request {
	context["hostname"] = types.String(r.Authority.Host())
	context["port"] = types.Long(r.Authority.Port())
	if addr, ok := r.Authority.Addr(); ok {
		if ip, err := types.ParseIPAddr(addr.String()); err == nil {
			context["ip"] = ip
		}
	}
	return cedar.Request{
		Principal: w.session.UID,
		Action:    types.NewEntityUID("Action", action),
		Resource:  w.host.UID,
		Context:   types.NewRecord(context),
	}
}

// remembered bounds a memo. Names come from a program that may invent them, so
// a full memo starts anew: a flood of it pays what a first question costs.
const remembered = 1024

// A memo keeps what the Cedar policies said of a connection. A set never changes
// and evaluation is pure, so the answer cannot grow old; cedar-go takes
// microseconds and dozens of allocations for it. The zero value is ready.
type memo struct {
	mu    sync.RWMutex
	found map[question]cedarFound
}

func (m *memo) get(q question) (cedarFound, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f, ok := m.found[q]
	return f, ok
}

func (m *memo) put(q question, f cedarFound) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found == nil || len(m.found) >= remembered {
		m.found = map[question]cedarFound{}
	}
	m.found[q] = f
}

// A question is all that policies about connections can read.
type question struct {
	authority               authority.Authority
	session, project, agent string
}

// evaluate is what the policies say, about connections perhaps from memory.
func (s *cedarSet) evaluate(r Request) cedarFound {
	q := question{r.Authority, r.Session, r.Project, r.Agent}
	f, ok := s.memo.get(q)
	if !ok {
		f = s.ask(r, s.askConnect)
		s.memo.put(q, f)
	}
	if r.Action == HTTPRequest && len(s.request) > 0 {
		f.add(s.ask(r, s.askRequest))
	}
	return f
}

// carry puts what an HTTP request carries into its world.
func (w *world) carry(r Request) types.RecordMap {
	segments := types.RecordMap{}
	parts := r.HTTP.Path.Segments()
	for i, part := range parts {
		segments[types.String(strconv.Itoa(i))] = types.String(part)
		segments[types.String(strconv.Itoa(i-len(parts)))] = types.String(part)
	}
	headers := types.RecordMap{}
	if r.HTTP.Header != nil {
		for name, value := range r.HTTP.Header {
			lower := strings.ToLower(name)
			join(headers, lower, value)
			if other := strings.ReplaceAll(lower, "_", "-"); other != lower {
				join(headers, other, value) // as fieldname.Same: many servers take it for that one
			}
		}
	}
	query := types.RecordMap{}
	// What cannot be read was refused before anything is evaluated.
	values, _ := r.HTTP.Values()
	for key, list := range values {
		for _, value := range list {
			join(query, key, value)
		}
	}
	w.segments = types.Entity{UID: types.NewEntityUID("Segments", "request"), Tags: types.NewRecord(segments)}
	w.headers = types.Entity{UID: types.NewEntityUID("Headers", "request"), Tags: types.NewRecord(headers)}
	w.query = types.Entity{UID: types.NewEntityUID("Query", "request"), Tags: types.NewRecord(query)}
	return types.RecordMap{
		"session": types.String(r.Session), "agent": types.String(r.Agent),
		"method": types.String(r.HTTP.Method), "path": types.String(r.HTTP.Path.String()), "depth": types.Long(len(parts)),
		"segments": w.segments.UID, "headers": w.headers.UID, "query": w.query.UID,
	}
}

func join(into types.RecordMap, key, value string) {
	k := types.String(key)
	if before, ok := into[k].(types.String); ok {
		value = string(before) + ", " + value
	}
	into[k] = types.String(value)
}

// ask asks cedar-go, which skips a policy that errors; here an error of
// either kind of policy is kept and denies, since no one can know what the
// policy would have said.
//
// A panic in an evaluator is such an error too: the guardian must outlive a
// policy file.
func (s *cedarSet) ask(r Request, group func(Request) cedarFound) (f cedarFound) {
	defer func() {
		if p := recover(); p != nil {
			f = cedarFound{broken: s.any(), diagnostic: fmt.Sprintf("a Cedar policy cannot be evaluated: %v", p)}
		}
	}()
	return group(r)
}

func (s *cedarSet) askConnect(r Request) cedarFound {
	w := s.world(r)
	return s.connect.classify(s.connect, w, w.request(r, actionConnect, types.RecordMap{}), r.Authority)
}

func (s *cedarSet) askRequest(r Request) cedarFound {
	if why := unreadable(r.HTTP); why != nil {
		if p := s.request.speaksOf(r.Authority); p != nil {
			return cedarFound{broken: p, diagnostic: why.Error()}
		}
		return cedarFound{}
	}
	w := s.world(r)
	return s.request.classify(s.request, w, w.request(r, actionRequest, w.carry(r)), r.Authority)
}

// unreadable is why a request cannot be put in Cedar's words.
func unreadable(q HTTP) error {
	if q.BadPath != nil {
		return q.BadPath
	}
	if _, err := q.Values(); err != nil {
		return errors.New("a query that cannot be read")
	}
	return nil
}

// any is some policy, for an error that is no one's.
func (s *cedarSet) any() *cedarPolicy {
	return slices.Concat(s.connect, s.request, s.rewrite, s.mcp, s.secret)[0]
}

// add joins what two groups say.
func (f *cedarFound) add(o cedarFound) {
	for t, p := range o.best {
		if f.best[t] == nil {
			f.best[t] = p
		}
	}
	if f.broken == nil {
		f.broken, f.diagnostic = o.broken, o.diagnostic
	}
	if f.wrongPort == nil {
		f.wrongPort = o.wrongPort
	}
}

func (g cedarGroup) classify(policies cedar.PolicyIterator, w *world, q cedar.Request,
	a authority.Authority) cedarFound {
	_, d := cedar.Authorize(policies, w, q)
	var f cedarFound
	for _, e := range d.Errors {
		p := g.byID(e.PolicyID)
		if f.broken == nil {
			f.broken = p
			f.diagnostic = "the Cedar policy \"" + p.verdict.Rule + "\"" + quotePlace(p.verdict.Origin) +
				" cannot be evaluated: " + e.Message
		}
	}
	for _, reason := range d.Reasons {
		p := g.byID(reason.PolicyID)
		switch {
		case !p.speaksOf(a):
			f.wrongPort = p
		case f.best[p.tier] == nil:
			f.best[p.tier] = p
		}
	}
	return f
}

// byID finds a policy by the id that keepPolicy gave it, its number.
func (g cedarGroup) byID(id cedar.PolicyID) *cedarPolicy {
	n, err := strconv.Atoi(string(id))
	if err != nil || n < 0 || n >= len(g) {
		return g[0] // cannot be: ids are ours
	}
	return g[n]
}

// speaksOf is the first policy that may say something of a destination: one that
// names it, or names no host at all.
func (g cedarGroup) speaksOf(a authority.Authority) *cedarPolicy {
	for _, p := range g {
		if len(p.named) == 0 || p.names(a) {
			return p
		}
	}
	return nil
}

// opens is the first permit of requests that names a destination: it lets the
// connection through, and each request on it is judged. One that names no host
// opens none.
func (g cedarGroup) opens(a authority.Authority) *cedarPolicy {
	for _, p := range g {
		if p.tier != tierForbid && p.names(a) && p.speaksOf(a) {
			return p
		}
	}
	return nil
}

func (p *cedarPolicy) names(a authority.Authority) bool {
	return slices.ContainsFunc(p.named, func(h cedarhost.Literal) bool {
		return h.AtPort(a.Port()) &&
			h.Pattern.Match(a.Host())
	})
}

// speaksOf holds a permit that says nothing of ports to 443 and 80, like a
// rule in YAML: it speaks of another port only if it reads context.port or
// names this destination as Host::"name:port".
func (p *cedarPolicy) speaksOf(a authority.Authority) bool {
	if p.tier == tierForbid || p.readPort || isDefaultPort(a.Port()) {
		return true
	}
	for _, h := range p.atPorts {
		if h.Port == a.Port() && h.Pattern.Match(a.Host()) {
			return true
		}
	}
	return false
}

func (p *cedarPolicy) brokenVerdict() Verdict {
	return Verdict{
		Rule: p.verdict.Rule, Origin: p.verdict.Origin,
		Reason: "the Cedar policy \"" + p.verdict.Rule + "\"" + quotePlace(p.verdict.Origin) +
			" cannot be evaluated, so nothing is allowed",
		Hints: []string{"correct the policy" + quotePlace(p.verdict.Origin)},
	}
}

// All makes one policy a cedar.PolicyIterator.
func (p *cedarPolicy) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) { yield(p.id, p.policy) }
}

// matching are all policies that match, each asked alone: together, a forbid
// hides the permits.
func (s *cedarSet) matching(r Request) []*cedarPolicy {
	w := s.world(r)
	out := s.connect.matching(w, w.request(r, actionConnect, types.RecordMap{}), r.Authority)
	if r.Action == HTTPRequest && unreadable(r.HTTP) == nil {
		out = append(out, s.request.matching(w, w.request(r, actionRequest, w.carry(r)), r.Authority)...)
	}
	return out
}

func (g cedarGroup) matching(w *world, q cedar.Request, a authority.Authority) []*cedarPolicy {
	var out []*cedarPolicy
	for _, p := range g {
		f := g.classify(p, w, q, a)
		if f.broken != nil || f.best[p.tier] != nil {
			out = append(out, p)
		}
	}
	return out
}
