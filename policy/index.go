package policy

import (
	"net/netip"
	"slices"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/reading"
	"cloister/internal/source"
)

// tier is a step of the order of decision.
type tier uint8

const (
	tierForbid  tier = iota
	tierRefused      // a person's remembered deny
	tierPerson       // a person's own word, remembered or for this session: before ask rules
	tierAsk
	tierAllow
	tiers
)

func (t tier) effect() Effect {
	switch t {
	case tierForbid, tierRefused:
		return Deny
	case tierAsk:
		return Ask
	case tierPerson, tierAllow:
		return Allow
	case tiers:
	}
	return Deny
}

// rule is a Rule made ready: parsed, with its words spoken in advance so that
// a decision allocates nothing.
type rule struct {
	tier    tier
	pattern authority.Pattern // or
	prefix  netip.Prefix
	ports   []uint16 // nil is every port
	request *matcher // nil is every request, and the connection itself
	login   *loginMatcher
	tunnel  bool // TLS is passed on uninspected
	opened  bool // TLS is inspected, whatever another rule says
	// rank is how specific the rule is, order is where it stood: they choose
	// which of several matching rules is named, never what is decided.
	rank, order int
	name        string
	origin      source.Position
	verdict     Verdict
	elsewhere   string // the reason given when only the port is wrong
	otherwise   string // the reason given when only the request is another
}

func (r *rule) atPort(p uint16) bool { return r.ports == nil || slices.Contains(r.ports, p) }

// index finds the rules that name a host without looking at the others.
type index struct {
	exact map[string][]*rule
	below map[string][]*rule
	every []*rule
	cidr  map[netip.Prefix][]*rule
	bits  []int // of the prefixes in cidr, each once
}

func newIndex(rules []*rule) *index {
	ix := &index{exact: map[string][]*rule{}, below: map[string][]*rule{}, cidr: map[netip.Prefix][]*rule{}}
	for _, r := range rules {
		switch base := r.pattern.Base(); {
		case r.prefix.IsValid():
			ix.cidr[r.prefix] = append(ix.cidr[r.prefix], r)
			if !slices.Contains(ix.bits, r.prefix.Bits()) {
				ix.bits = append(ix.bits, r.prefix.Bits())
			}
		case !r.pattern.Wildcard():
			ix.exact[base] = append(ix.exact[base], r)
		case base == "":
			ix.every = append(ix.every, r)
		default:
			ix.below[base] = append(ix.below[base], r)
		}
	}
	return ix
}

// naming calls yield with each rule that names the host, whatever its ports.
// It takes a *found, not a func: a closure would cost an allocation.
func (ix *index) naming(a authority.Authority, f *found) {
	f.offer(ix.every, a.Port())
	if addr, ok := a.Addr(); ok {
		for _, bits := range ix.bits {
			if p, err := addr.Prefix(bits); err == nil {
				f.offer(ix.cidr[p], a.Port())
			}
		}
		return
	}
	host := a.Host()
	f.offer(ix.exact[host], a.Port())
	for {
		i := strings.IndexByte(host, '.')
		if i < 0 {
			return
		}
		host = host[i+1:]
		f.offer(ix.below[host], a.Port())
	}
}

// found is the best rule of each tier for one destination.
type found struct {
	http *HTTP // the request that is judged; nil for a connection
	// best are the rules that speak of all requests, or of this one.
	best [tiers]*rule
	// plain is the best allow rule that speaks of everything.
	plain *rule
	// some is the best rule of each tier that speaks of requests to this
	// destination, whether or not of this one.
	some [tiers]*rule
	// login is the best rule of each tier that speaks of logins to this
	// destination, whether or not of this one; asked is the login, nil before it,
	// and said the best allow rule that speaks of it.
	login [tiers]*rule
	asked *reading.Login
	said  *rule
	// bytes is the most that an allow rule about this request lets through.
	bytes *int64
	// opened is set by a rule that wants TLS inspected, whatever another says.
	opened bool
	// wrongPort is the best rule that widens and names the host at other ports.
	wrongPort *rule
	all       *[]*rule // every rule that names the host, if a caller asks
}

func (f *found) offer(rules []*rule, port uint16) {
	for _, r := range rules {
		slot := &f.best[r.tier]
		switch {
		case !r.atPort(port) && r.tier.effect() == Deny:
			continue
		case !r.atPort(port):
			slot = &f.wrongPort
		case r.opened:
			f.opened = true
		}
		switch {
		case !r.atPort(port):
		case r.login != nil:
			keep(&f.login[r.tier], r)
			if f.asked == nil || !r.login.match(f.asked, r.tier.effect()) {
				continue
			}
			if r.tier.effect() == Allow {
				slot = &f.said
			}
		case r.request != nil:
			keep(&f.some[r.tier], r)
			if f.http == nil || !r.request.match(f.http, r.tier) {
				continue
			}
			if r.tier == tierAllow {
				f.bytes = widest(f.bytes, &r.request.bytes)
			}
		case r.tier == tierAllow:
			slot = &f.plain
		}
		keep(slot, r)
	}
	if f.all != nil {
		*f.all = append(*f.all, rules...)
	}
}

func keep(slot **rule, r *rule) {
	if *slot == nil || r.before(*slot) {
		*slot = r
	}
}

// stands reports whether the plain allow rule holds: a rule about requests that is
// more exact takes its place.
func (f *found) stands() bool {
	some := f.some[tierAllow]
	return f.plain != nil && (some == nil || f.plain.rank >= some.rank)
}

func (r *rule) before(o *rule) bool {
	if r.rank != o.rank {
		return r.rank > o.rank
	}
	return r.order < o.order
}
