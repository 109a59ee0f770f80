package policy

import (
	"slices"

	"cloister/internal/authority"
)

// The rules that no file wrote.
const (
	ruleUnlisted = "unlisted"
	ruleNone     = "no policy"
	ruleInvalid  = "invalid request"
)

// Decide answers a request by a snapshot. It cannot fail: what cannot be
// evaluated is a deny with a Diagnostic.
func Decide(s *Snapshot, r Request) Verdict {
	if s == nil {
		return Verdict{Rule: ruleNone, Reason: "no policy is loaded"}
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
		return s.connect(r)
	case NetworkResolve:
		return s.resolve(r)
	}
	return Verdict{Rule: ruleInvalid, Reason: "the request is for an unknown " + r.Action.String()}
}

func (s *Snapshot) connect(r Request) Verdict {
	var f found
	for _, ix := range s.layers {
		ix.naming(r.Authority, &f)
	}
	var c cedarFound
	if s.cedar != nil {
		c = s.cedar.evaluate(r)
	}
	v := s.choose(&f, &c, r.Authority)
	if c.diagnostic != "" {
		v.Diagnostic = c.diagnostic
	}
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
	case f.best[tierAllow] != nil:
		return f.best[tierAllow].verdict
	case c.best[tierAllow] != nil:
		return c.best[tierAllow].verdict
	}
	return s.unlistedVerdict(f, c, a)
}

func (s *Snapshot) unlistedVerdict(f *found, c *cedarFound, a authority.Authority) Verdict {
	v := Verdict{Effect: s.unlisted, Rule: ruleUnlisted, Hints: allowHints(a)}
	// A person can judge a name. An address tells them nothing, and asking for
	// it is how a program gets around the names.
	_, isAddr := a.Addr()
	if isAddr {
		v.Effect = Deny
	}
	switch {
	case f.wrongPort != nil:
		v.Origin, v.Reason = f.wrongPort.origin, f.wrongPort.elsewhere
	case c.wrongPort != nil:
		v.Origin = c.wrongPort.verdict.Origin
		v.Reason = "the Cedar policy \"" + c.wrongPort.verdict.Rule + "\"" + quotePlace(v.Origin) + " names no port, so it speaks of 443 and 80 only"
	case isAddr:
		v.Reason = "no rule names this address; addresses are denied unless a rule names them"
	case s.unlisted == Ask:
		v.Reason = "no rule names this destination; unlisted destinations ask a person first"
	default:
		v.Reason = "no rule names this destination; unlisted destinations are denied"
	}
	return v
}

// resolve judges a name at each port where the answer could differ.
func (s *Snapshot) resolve(r Request) Verdict {
	var best Verdict
	for i, port := range s.portsFor(r.Authority) {
		q := r
		q.Action, q.Authority = NetworkConnect, r.Authority.WithPort(port)
		v := s.connect(q)
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
// names, the default ones, one that nobody names.
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
