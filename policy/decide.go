package policy

import (
	"slices"

	"cloister/internal/authority"
	"cloister/policy/allowing"
)

// The rules that no file wrote.
const (
	RuleUnlisted = "unlisted"
	ruleNone     = "no policy"
	ruleInvalid  = "invalid request"
)

// Decide answers a request by a snapshot. It cannot fail: what cannot be
// evaluated is a deny with a Diagnostic.
func Decide(s *Snapshot, r Request) Verdict {
	if s == nil {
		return Verdict{Rule: ruleNone, Reason: "no policy is loaded"}
	}
	if r.Action == SecretUse {
		return s.judge(r) // what went out cannot be taken back, in no mode
	}
	return s.soften(s.judge(r))
}

// soften is what shadow and record mode do to a verdict: everything passes,
// what would have been refused is marked.
func (s *Snapshot) soften(v Verdict) Verdict {
	if s.mode != Enforce && v.Effect != Allow {
		v.Effect, v.WouldDeny = Allow, true
	}
	return v
}

func (s *Snapshot) judge(r Request) Verdict {
	if !r.Authority.IsValid() {
		return Verdict{Rule: ruleInvalid, Reason: "the request names no destination"}
	}
	switch r.Action {
	case NetworkConnect:
		return s.weigh(r)
	case HTTPRequest:
		return s.everyReading(r)
	case NetworkResolve:
		return s.resolve(r)
	case McpCall:
		if r.MCP != nil {
			return s.call(r)
		}
	case SecretUse:
		if r.Use != nil {
			return s.use(r)
		}
	}
	return Verdict{Rule: ruleInvalid, Reason: "the request is for an unknown " + r.Action.String()}
}

func (s *Snapshot) weigh(r Request) Verdict {
	f := found{asked: r.Login}
	if r.Action == HTTPRequest {
		q := r.HTTP // a copy, so that only a request costs an allocation
		q.To = r.Authority
		f.http = &q
	}
	for _, ix := range s.layers {
		ix.naming(r.Authority, &f)
	}
	var c cedarFound
	if s.cedar != nil {
		c = s.cedar.evaluate(r)
		c.reads = s.cedar.request.speaksOf(r.Authority) != nil
	}
	protocol := f.settleLogin()
	v := s.choose(&f, &c, r.Authority)
	v.Protocol = protocol
	if c.diagnostic != "" {
		v.Diagnostic = c.diagnostic
	}
	v.Judged = f.inspect() || c.reads
	v.Inspect = v.Judged || s.rewrites(r.Authority) || len(s.MCPServersAt(r.Authority)) > 0
	v.Tunnel = f.plain != nil && f.plain.tunnel && f.stands() && !f.opened
	if r.Action == HTTPRequest && v.Effect != Deny {
		changes, broken := s.changes(r)
		if broken != nil {
			denied := broken.broken.brokenVerdict()
			denied.Diagnostic, denied.Inspect, denied.Judged = broken.diagnostic, true, v.Judged
			return denied
		}
		v.Rewrites = changes
	}
	if v.Inspect && v.Effect != Deny && v.Tunnel {
		return s.closedTunnel(&f)
	}
	return v
}

// inspect reports whether rules speak of requests to the destination so that what
// is said here is not the last word.
func (f *found) inspect() bool {
	switch {
	case f.some[tierForbid] != nil, f.some[tierRefused] != nil:
		return true
	case f.best[tierPerson] != nil && f.best[tierPerson].request == nil:
		return false
	}
	return f.some[tierPerson] != nil || f.some[tierAsk] != nil || f.some[tierAllow] != nil && !f.stands()
}

// closedTunnel is a tunnel by one rule in which another wants to read.
func (s *Snapshot) closedTunnel(f *found) Verdict {
	v := Verdict{Rule: f.plain.name, Origin: f.plain.origin}
	v.Reason = "the rule \"" + f.plain.name + "\"" + quotePlace(v.Origin) +
		" never opens this connection, and other rules deny, ask about or change what is in it"
	v.Hints = []string{"leave out tls: tunnel, or the rules about requests to this host"}
	return v
}

// choose is the order of decision, in one place.
func (s *Snapshot) choose(f *found, c *cedarFound, a authority.Authority) Verdict {
	switch {
	case f.best[tierForbid] != nil:
		return f.best[tierForbid].verdict
	case c.best[tierForbid] != nil:
		return c.best[tierForbid].verdict
	case c.broken != nil:
		return c.broken.brokenVerdict()
	case f.best[tierRefused] != nil:
		return f.best[tierRefused].verdict
	case f.best[tierPerson] != nil:
		return f.best[tierPerson].verdict
	case f.best[tierAsk] != nil:
		return withAskHints(f.best[tierAsk].verdict, a)
	case c.best[tierAsk] != nil:
		return withAskHints(c.best[tierAsk].verdict, a)
	case f.stands():
		return f.plain.verdict
	case f.best[tierAllow] != nil:
		v := f.best[tierAllow].verdict
		v.MaxBytes = *f.bytes
		return v
	case c.best[tierAllow] != nil:
		return c.best[tierAllow].verdict
	}
	if f.http == nil {
		if v, ok := s.opened(f, a); ok {
			return v
		}
	}
	return s.unlistedVerdict(f, c, a)
}

// opened lets a connection through because some of the requests on it may be.
func (s *Snapshot) opened(f *found, a authority.Authority) (Verdict, bool) {
	v := Verdict{Effect: Allow}
	some := f.login[tierAllow]
	if f.asked != nil {
		some = nil
	}
	for _, t := range []tier{tierPerson, tierAllow, tierAsk} {
		if some == nil {
			some = f.some[t]
		}
	}
	switch {
	case some != nil:
		v.Rule, v.Origin = some.name, some.origin
	case s.cedar != nil && s.cedar.request.opens(a) != nil:
		p := s.cedar.request.opens(a)
		v.Rule, v.Origin = p.verdict.Rule, p.verdict.Origin
	default:
		return Verdict{}, false
	}
	what := "request"
	if some != nil && some.login != nil {
		what = "login"
	}
	v.Reason = "each " + what + " to it is judged; the rule \"" + v.Rule + "\"" + quotePlace(v.Origin) + " speaks of some"
	return v, true
}

func (s *Snapshot) unlistedVerdict(f *found, c *cedarFound, a authority.Authority) Verdict {
	v := Verdict{Effect: s.unlisted, Rule: RuleUnlisted, Hints: allowing.Destination(a)}
	// A person can judge a name. An address tells them nothing, and asking for
	// it is how a program gets around the names.
	_, isAddr := a.Addr()
	if isAddr {
		v.Effect = Deny
	}
	some := f.some[tierAllow]
	switch {
	case f.asked != nil && f.login[tierAllow] != nil:
		v.Effect = Deny // no person is asked about a login
		v.Origin, v.Reason, v.Hints = f.login[tierAllow].origin, f.login[tierAllow].otherwise,
			loginHints(a, f.asked, f.login[tierAllow].login)
	case f.http != nil && some != nil:
		v.Hints = nil // everyReading has the nearest rule speak, once
	case f.wrongPort != nil:
		v.Origin, v.Reason = f.wrongPort.origin, f.wrongPort.elsewhere
	case c.wrongPort != nil:
		v.Origin = c.wrongPort.verdict.Origin
		v.Reason = "the Cedar policy \"" + c.wrongPort.verdict.Rule + "\"" + quotePlace(v.Origin) +
			" names no port, so it speaks of 443 and 80 only"
	case isAddr:
		v.Reason = "no rule names this address; addresses are denied unless a rule names them"
	case f.http != nil && c.reads:
		v.Reason, v.Hints = "no rule names this request; unlisted requests "+s.unlistedHow(),
			allowing.Request(a, asked(f.http))
		if p := s.cedar.request.opens(a); p != nil {
			v.Origin = p.verdict.Origin
			v.Reason = "the Cedar policy \"" + p.verdict.Rule + "\"" + quotePlace(v.Origin) +
				" names this host, but not this request; unlisted requests " + s.unlistedHow()
		}
	default:
		v.Reason = "no rule names this destination; unlisted destinations " + s.unlistedHow()
	}
	return v
}

func (s *Snapshot) unlistedHow() string {
	if s.unlisted == Ask {
		return "ask a person first"
	}
	return "are denied"
}

// resolve judges a name at each port where the answer could differ.
func (s *Snapshot) resolve(r Request) Verdict {
	var best Verdict
	for i, port := range s.portsFor(r.Authority) {
		q := r
		q.Action, q.Authority = NetworkConnect, r.Authority.WithPort(port)
		v := s.weigh(q)
		if i == 0 || v.Effect > best.Effect {
			best = v
		}
		if best.Effect == Allow {
			break
		}
	}
	return best
}

// portsFor lists ports that stand for all: those any rule about this host
// names, the default ones, one that no one names.
func (s *Snapshot) portsFor(a authority.Authority) []uint16 {
	var all []*rule
	f := found{all: &all}
	for _, ix := range s.layers {
		ix.naming(a, &f)
	}
	ports := defaultPorts()
	for _, r := range all {
		ports = append(ports, r.ports...)
	}
	if s.cedar != nil {
		ports = append(ports, s.cedar.ports...)
	}
	free := uint16(1)
	for slices.Contains(ports, free) {
		free++
	}
	ports = append(ports, free)
	first := ports[:2:2]
	rest := slices.Clone(ports[2:])
	slices.Sort(rest)
	return append(first, slices.Compact(rest)...)
}
