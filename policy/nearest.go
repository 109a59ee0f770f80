package policy

import (
	"net/url"
	"slices"
	"strings"
	"sync"

	"cloister/internal/authority"
	"cloister/policy/allowing"
)

// How much a part that differs makes a rule another one than the one that a person
// had in mind. It chooses which rule a refusal names, never what is decided.
const (
	farPath   = 4
	farMethod = 2
	farField  = 1
)

// mostLikened bounds the rules that a refused request's fields are held against again.
const mostLikened = 64

// unlike is what of a request a rule of that tier does not speak of, in words, and
// how much that is. The values stay untold: they may be secrets. query is q.Values,
// which costs too much for a rule that names no keys.
func (m *matcher) unlike(q *HTTP, t tier, query func() (url.Values, error)) (words []string, far int) {
	widens := t == tierAllow || t == tierPerson
	differ := func(by int, word string) { words, far = append(words, word), far+by }
	if len(m.methods) > 0 && !slices.Contains(m.methods, q.Method) {
		differ(farMethod, "another method")
	}
	if len(m.paths) > 0 && !m.matchPath(q, widens) {
		if q.BadPath != nil {
			differ(farField, q.BadPath.Error()) // it may be the very path that the rule means
		} else {
			differ(farPath, "another path")
		}
	}
	for _, h := range m.headers {
		if !fits(h, widens, q.Fields(h.name)) {
			differ(farField, "another header "+h.name)
		}
	}
	if m.objects != "" {
		if why := q.Leaves(m.objects); why != "" {
			differ(farField, why)
		}
	}
	for _, k := range m.query {
		values, err := query()
		if err != nil {
			differ(farField, "a query that servers read in two ways")
			break
		}
		if !fits(k, widens, slices.Values(values[k.name])) {
			differ(farField, "another query "+k.name)
		}
	}
	return words, far
}

// asked is the request for those who write what would allow it.
func asked(q *HTTP) allowing.Asked {
	return allowing.Asked{Method: q.Method, Query: q.Query, Path: q.Path, BadPath: q.BadPath}
}

// nearest gives the answer to a request to a destination where rules allow others
// its words: of the rules that name its host most exactly (half the rank, whoever wrote
// them) the one that is most like the request, and what it does not fit in.
func (s *Snapshot) nearest(v *Verdict, a authority.Authority, q *HTTP) {
	var all []*rule
	f := found{all: &all}
	for _, ix := range s.layers {
		ix.naming(a, &f)
	}
	all = slices.DeleteFunc(all, func(r *rule) bool {
		return r.tier != tierAllow || r.request == nil || !r.atPort(a.Port()) || r.rank/2 < f.some[tierAllow].rank/2
	})
	query, least := sync.OnceValues(q.Values), -1
	var near *rule
	for _, r := range all[:min(len(all), mostLikened)] {
		if words, far := r.request.unlike(q, r.tier, query); least < 0 || far < least || far == least && r.before(near) {
			near, least = r, far
			v.Origin, v.Reason = r.origin, r.otherwise+": "+strings.Join(words, ", ")
		}
	}
	v.Hints = allowing.Request(a, asked(q))
}

// otherRequest is why a rule has no say in a request.
func (r *rule) otherRequest(q *HTTP) string {
	words, _ := r.request.unlike(q, r.tier, q.Values)
	return strings.Join(words, ", ")
}
