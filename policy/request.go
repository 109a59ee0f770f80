package policy

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"cloister/internal/reading"
	"cloister/internal/urlpath"
	"cloister/policy/allowing"
)

// matcher is the part of a rule that speaks of requests. What is empty fits
// every request.
type matcher struct {
	methods []string
	paths   []urlpath.Glob
	headers []pair // names in lower case
	query   []pair
	objects reading.StoreKind // those of its objects alone; empty for every request
	bytes   int64
}

// pair is a name with a text in which * stands for any characters.
type pair struct{ name, value string }

func widest(a, b *int64) *int64 {
	if a == nil || *a != 0 && (*b == 0 || *b > *a) {
		return b
	}
	return a
}

// match reports whether a rule of that tier speaks of a request. Where a header or
// key stands several times the two kinds of rule read it to opposite ends: one
// that allows wants every value to fit, one that asks or denies any.
func (m *matcher) match(q *HTTP, t tier) bool {
	widens := t == tierAllow || t == tierPerson
	if len(m.methods) > 0 && !slices.Contains(m.methods, q.Method) {
		return false
	}
	if len(m.paths) > 0 && !m.matchPath(q, widens) {
		return false
	}
	for _, h := range m.headers {
		if !fits(h, widens, q.Fields(h.name)) {
			return false
		}
	}
	if m.objects != "" && q.Leaves(m.objects) != "" {
		return false
	}
	if len(m.query) == 0 {
		return true
	}
	values, err := q.Values()
	if err != nil {
		return !widens // what the server makes of it is not known
	}
	for _, k := range m.query {
		if !fits(k, widens, slices.Values(values[k.name])) {
			return false
		}
	}
	return true
}

func (m *matcher) matchPath(q *HTTP, widens bool) bool {
	if q.BadPath != nil {
		return !widens
	}
	return slices.ContainsFunc(m.paths, func(g urlpath.Glob) bool {
		return g.Match(q.Path) || !widens && g.MatchFold(q.Path)
	})
}

func fits(want pair, all bool, values iter.Seq[string]) bool {
	some := false
	for v := range values {
		some = true
		if urlpath.Wild(want.value, v) != all {
			return !all
		}
	}
	return some && all
}

// compileRequest reads what a rule says of requests; nil where it says nothing.
func compileRequest(in Rule) (*matcher, error) {
	if in.Methods == nil && in.Paths == nil && in.Headers == nil && in.Query == nil && in.Bytes == 0 && in.Objects == "" {
		return nil, nil
	}
	m := &matcher{bytes: in.Bytes, objects: in.Objects}
	bad := func(msg, hint string) error { return problem(in.Origin, msg, hint) }
	switch {
	case in.Tunnel:
		return nil, bad("a tunnel is never opened, so nothing in it can be read",
			"leave out tls: tunnel, or methods, paths, headers, query and bytes")
	case in.Objects != "" && in.Objects != reading.S3 && in.Objects != reading.GCS:
		return nil, bad(fmt.Sprintf("objects: %q is no interface of a store", in.Objects), "s3 and gcs are")
	case in.Objects != "" && in.Effect != Allow:
		return nil, bad("objects narrows what is allowed", "write it in an allow rule")
	case in.Bytes < 0:
		return nil, bad("bytes is less than nothing", "")
	case in.Bytes > 0 && in.Effect != Allow:
		return nil, bad("bytes bounds the body of an allowed request", "write it in an allow rule")
	case in.Methods != nil && len(in.Methods) == 0:
		return nil, bad("the list of methods is empty", "leave it out for every method")
	case in.Paths != nil && len(in.Paths) == 0:
		return nil, bad("the list of paths is empty", "leave it out for every path")
	}
	for _, method := range in.Methods {
		if !allowing.IsMethod(method) {
			return nil, bad(fmt.Sprintf("%q is no method", method), "methods are written as they are sent: GET, HEAD, POST")
		}
		m.methods = append(m.methods, method)
	}
	for _, text := range in.Paths {
		g, err := urlpath.ParseGlob(text)
		if err != nil {
			return nil, bad(fmt.Sprintf("path %q: %v", text, err), `for example paths: ["/repos/acme/**"]`)
		}
		m.paths = append(m.paths, g)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		if !isFieldName(name) {
			return nil, bad(fmt.Sprintf("%q is no name of a header", name), "")
		}
		lower := strings.ToLower(name)
		if gateOwns(lower) {
			return nil, bad(fmt.Sprintf("the header %s is the gate's own", name),
				"it is checked or written anew for every request")
		}
		m.headers = append(m.headers, pair{lower, in.Headers[name]})
	}
	for _, key := range slices.Sorted(maps.Keys(in.Query)) {
		m.query = append(m.query, pair{key, in.Query[key]})
	}
	slices.Sort(m.methods)
	m.methods = slices.Compact(m.methods)
	slices.SortFunc(m.paths, func(a, b urlpath.Glob) int { return strings.Compare(a.String(), b.String()) })
	return m, nil
}

func isFieldName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}

// words are the matcher in a rule's name, which is also its identity.
func (m *matcher) words() string {
	var out []string
	if len(m.methods) > 0 {
		out = append(out, strings.Join(m.methods, ","))
	}
	for _, g := range m.paths {
		out = append(out, g.String())
	}
	for _, h := range m.headers {
		out = append(out, fmt.Sprintf("header %s=%q", h.name, h.value))
	}
	for _, k := range m.query {
		out = append(out, fmt.Sprintf("query %s=%q", k.name, k.value))
	}
	if m.objects != "" {
		out = append(out, "objects "+string(m.objects))
	}
	if m.bytes > 0 {
		out = append(out, fmt.Sprintf("bytes %d", m.bytes))
	}
	return strings.Join(out, " ")
}
