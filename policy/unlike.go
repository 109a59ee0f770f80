package policy

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

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

// unlike is what of a request a rule of that tier does not speak of, in words, and
// how much that is. The values stay untold: they may be secrets.
func (m *matcher) unlike(q *HTTP, t tier) (words []string, far int) {
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
		if !fits(h, widens, fieldValues(q.Header, h.name)) {
			differ(farField, "another header "+h.name)
		}
	}
	values, err := url.ParseQuery(q.Query)
	if err != nil && len(m.query) > 0 {
		differ(farField, "a query that servers read in two ways")
		return words, far
	}
	for _, k := range m.query {
		if !fits(k, widens, slices.Values(values[k.name])) {
			differ(farField, "another query "+k.name)
		}
	}
	return words, far
}

// asked is the request for those who write what would allow it.
func (q *HTTP) asked() allowing.Asked {
	out := allowing.Asked{Method: q.Method, Query: q.Query, Path: &q.Path}
	if q.BadPath != nil {
		out.Path = nil
	}
	return out
}

// nearest is the allow rule about requests to a destination that is most like a
// request, and what it does not fit in.
func (s *Snapshot) nearest(a authority.Authority, q *HTTP) (near *rule, words []string) {
	var all []*rule
	f := found{all: &all}
	for _, ix := range s.layers {
		ix.naming(a, &f)
	}
	least := 0
	for _, r := range all {
		if r.tier != tierAllow || r.request == nil || !r.atPort(a.Port()) {
			continue
		}
		what, far := r.request.unlike(q, r.tier)
		if near == nil || cmp.Or(cmp.Compare(near.exactness(), r.exactness()), cmp.Compare(far, least)) < 0 || far == least && r.before(near) {
			near, words, least = r, what, far
		}
	}
	return near, words
}

// exactness is how exactly a rule names its host, whoever wrote it.
func (r *rule) exactness() int { return r.rank / 2 }

// otherRequest is why a rule has no say in a request.
func (r *rule) otherRequest(q *HTTP) string {
	words, _ := r.request.unlike(q, r.tier)
	return strings.Join(words, ", ")
}
