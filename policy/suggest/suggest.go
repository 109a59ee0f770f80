// Package suggest finds the rules that a policy lacks for what was seen.
//
// The promise: with the rules added, everything seen is allowed but what is reported
// as left over, and no rule names a host, a port or, where requests are judged, a
// method or a path that was not seen. Rules that deny or ask are left as they are.
//
// It reads no record, writes no file, and knows nothing of what was meant.
//
// Most readers want [Rules].
package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"unicode/utf8"

	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/internal/urlpath"
	"cloister/policy"
)

// Seen is a connection, or a request where Method is set.
type Seen struct {
	To           authority.Authority
	Method, Path string
	Count        int
}

// Rule is one to add, with how often what it allows was seen: connections, or
// requests where it speaks of them.
type Rule struct {
	policy.Rule
	Count int
}

// Left is what no further allow rule would allow.
type Left struct {
	Seen
	Effect policy.Effect
	Reason string
}

// mostPaths is how many paths of one host, port and method are named; further ones are
// left over: a rule about all paths would allow what was not seen.
const mostPaths = 200

// Rules are those that in lacks, by host.
func Rules(in policy.Input, seen []Seen) ([]Rule, []Left, error) {
	in.Mode = policy.Enforce
	before, err := with(in, nil)
	if err != nil {
		return nil, nil, err
	}
	rules := hosts(refused(before, seen, false))
	now, err := with(in, rules)
	if err != nil {
		return nil, nil, err
	}
	// What is still refused has rules about requests of its own.
	byRequest, unnamed := requests(refused(now, seen, true))
	rules = append(rules, byRequest...)
	if now, err = with(in, rules); err != nil {
		return nil, nil, err
	}
	var left []Left
	gained := map[string]bool{}
	for _, s := range seen {
		v, ok := judge(now, s)
		if !ok {
			if why := unnamed[s.Method+" "+s.Path]; why != "" {
				v.Reason = why
			}
			left = append(left, Left{s, v.Effect, v.Reason})
		} else if _, had := judge(before, s); !had {
			gained[subject(s)] = true
		}
	}
	return slices.DeleteFunc(rules, func(r Rule) bool { return !gained[r.Domain+r.CIDR] }), left, nil
}

// Merge are the rules of several answers of Rules as one list: of two that differ in
// nothing but ports, or nothing but paths, one.
func Merge(rules []Rule) []Rule {
	var out []Rule
	for _, r := range rules {
		i := slices.IndexFunc(out, func(o Rule) bool {
			return o.Domain == r.Domain && o.CIDR == r.CIDR && slices.Equal(o.Methods, r.Methods) &&
				(slices.Equal(o.Ports, r.Ports) && (len(o.Paths) > 0) == (len(r.Paths) > 0) || slices.Equal(o.Paths, r.Paths))
		})
		if i < 0 {
			r.Ports, r.Paths = slices.Clone(r.Ports), slices.Clone(r.Paths)
			out = append(out, r)
			continue
		}
		o := &out[i]
		o.Ports, o.Paths, o.Count = union(o.Ports, r.Ports), union(o.Paths, r.Paths), o.Count+r.Count
	}
	slices.SortStableFunc(out, func(a, b Rule) int { return cmp.Compare(a.Domain+a.CIDR, b.Domain+b.CIDR) })
	return out
}

func union[T cmp.Ordered](a, b []T) []T {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func with(in policy.Input, rules []Rule) (*policy.Snapshot, error) {
	in.Rules = slices.Clone(in.Rules)
	for _, r := range rules {
		in.Rules = append(in.Rules, r.Rule)
	}
	s, err := policy.Compile(in)
	if err != nil {
		return nil, fmt.Errorf("suggest rules: %w", err)
	}
	return s, nil
}

// judge is the last word on s: that on its connection where that is refused.
func judge(by *policy.Snapshot, s Seen) (policy.Verdict, bool) {
	v := policy.Decide(by, policy.Request{Action: policy.NetworkConnect, Authority: s.To})
	if v.Effect == policy.Allow && s.Method != "" {
		q := policy.HTTP{Method: s.Method}
		q.Target(s.Path)
		v = policy.Decide(by, policy.Request{Action: policy.HTTPRequest, Authority: s.To, HTTP: q})
	}
	return v, v.Effect == policy.Allow
}

// refused are those of seen that are: of requests, or of connections.
func refused(by *policy.Snapshot, seen []Seen, requests bool) []Seen {
	var out []Seen
	for _, s := range seen {
		if !requests && s.Method != "" {
			s.Method, s.Count = "", 0 // its connection was seen too
		}
		if _, ok := judge(by, s); !ok && (s.Method != "") == requests {
			out = append(out, s)
		}
	}
	return out
}

// hosts is a rule for each host.
func hosts(seen []Seen) []Rule {
	by := map[string]*Rule{}
	for _, s := range seen {
		r := of(by, s.To.Host(), s)
		if !slices.Contains(r.Ports, s.To.Port()) {
			r.Ports = append(r.Ports, s.To.Port())
		}
		r.Count += s.Count
	}
	return sorted(by)
}

// requests is a rule for each host, port and method; unnamed is why one is in none, by
// its method and path.
func requests(seen []Seen) (rules []Rule, unnamed map[string]string) {
	by, unnamed := map[string]*Rule{}, map[string]string{}
	for _, s := range seen {
		path, why := pathOf(s.Path)
		key := s.To.String() + " " + s.Method
		if r := by[key]; r != nil && why == "" && len(r.Paths) == mostPaths && !slices.Contains(r.Paths, path) {
			why = fmt.Sprintf("more than %d paths of it were seen: write a rule with a pattern for them", mostPaths)
		}
		if why != "" {
			unnamed[s.Method+" "+s.Path] = why
			continue
		}
		r := of(by, key, s)
		r.Ports, r.Methods = []uint16{s.To.Port()}, []string{s.Method}
		if !slices.Contains(r.Paths, path) {
			r.Paths = append(r.Paths, path)
		}
		r.Count += s.Count
	}
	for _, r := range by {
		slices.Sort(r.Paths)
	}
	return sorted(by), unnamed
}

// pathOf is the pattern that one path alone matches.
func pathOf(path string) (pattern, why string) {
	p, err := urlpath.Parse(path)
	if err != nil {
		return "", "its path cannot be named in a rule: " + err.Error()
	}
	pattern = urlpath.Escape(p.String())
	g, err := urlpath.ParseGlob(pattern)
	if err != nil || !utf8.ValidString(pattern) || !g.Match(p) {
		return "", "its path cannot be named in a rule"
	}
	return pattern, ""
}

func of(by map[string]*Rule, key string, s Seen) *Rule {
	if by[key] == nil {
		r := &Rule{Rule: policy.Rule{Effect: policy.Allow, Domain: subject(s), Origin: source.Position{Source: "suggestion"}}}
		if _, ok := s.To.Addr(); ok {
			r.Domain, r.CIDR = "", r.Domain
		}
		by[key] = r
	}
	return by[key]
}

func sorted(by map[string]*Rule) []Rule {
	var out []Rule
	for _, key := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[key].Ports)
		out = append(out, *by[key])
	}
	slices.SortStableFunc(out, func(a, b Rule) int { return cmp.Compare(a.Domain+a.CIDR, b.Domain+b.CIDR) })
	return out
}

// subject is what the rule for s names.
func subject(s Seen) string {
	if addr, ok := s.To.Addr(); ok {
		return netip.PrefixFrom(addr, addr.BitLen()).String()
	}
	return s.To.Host()
}
