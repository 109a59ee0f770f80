package policy

import (
	"slices"
	"strings"

	"cloister/internal/override"
	"cloister/internal/urlpath"
)

// mostReadings bounds the second readings of one request: no honest one has
// more than a method and a path beside its own.
const mostReadings = 8

// everyReading judges a request in each way in which a server may read it. Many
// obey a field or a query key instead of the method that was sent, some another
// path (CVE-2018-14773): a rule about GET must not let a DELETE through. The
// strictest answer counts.
func (s *Snapshot) everyReading(r Request) Verdict {
	v, by := s.weigh(r), reading{http: r.HTTP}
	var others []reading
	if v.Effect != Deny {
		others = r.HTTP.readings()
	}
	if len(others) > mostReadings {
		return Verdict{Rule: ruleInvalid, Reason: "the request says too many times that it is another one than it looks"}
	}
	for i := 0; i < len(others) && v.Effect != Deny; i++ {
		r.HTTP = others[i].http
		w := s.weigh(r)
		if w.Effect < v.Effect {
			w.Inspect, w.Judged, w.Rewrites = v.Inspect || w.Inspect, v.Judged || w.Judged, v.Rewrites
			v, by = w, others[i]
		}
		if w.MaxBytes > 0 && (v.MaxBytes == 0 || w.MaxBytes < v.MaxBytes) {
			v.MaxBytes = w.MaxBytes
		}
	}
	if v.Rule == RuleUnlisted && v.Reason == "" {
		s.nearest(&v, r.Authority, &by.http)
	}
	if by.says != "" {
		v.Reason = by.says + " makes another request of it: " + v.Reason
	}
	return v
}

// A reading is a request as a server may take it, and what says so.
type reading struct {
	http HTTP
	says string
}

// readings are all that differ from the request as it was sent, or more than
// mostReadings: 64 KiB of fields would make millions of them.
func (q *HTTP) readings() []reading {
	out := q.methodReadings()
	methods := len(out)
	for name, value := range q.overrides(override.Path) {
		if len(out) > mostReadings {
			break
		}
		other := reading{http: *q, says: "the field " + name}
		_, rest, ok := strings.Cut(value, "://")
		if i := strings.IndexByte(rest, '/'); ok && i >= 0 {
			value = rest[i:]
		}
		path, query, _ := strings.Cut(strings.TrimSpace(value), "?")
		other.http.Path, other.http.BadPath = urlpath.Parse(path)
		other.http.Query = query
		out = append(out, other)
		for _, method := range out[:methods] {
			both := other
			both.http.Method, both.says = method.http.Method, method.says+" with "+other.says
			out = append(out, both)
		}
	}
	return out
}

func (q *HTTP) methodReadings() []reading {
	var out []reading
	add := func(says, value string) {
		method := strings.ToUpper(strings.TrimSpace(value))
		if len(out) <= mostReadings && method != "" && method != q.Method && !slices.ContainsFunc(out, func(r reading) bool { return r.http.Method == method }) {
			other := reading{http: *q, says: says}
			other.http.Method = method
			out = append(out, other)
		}
	}
	add("its method in capitals", q.Method) // as Django reads it
	for name, value := range q.overrides(override.Method) {
		add("the field "+name, value)
	}
	for key, method := range override.Query(q.Query) {
		add("the query key "+key, method)
	}
	return out
}

func (q *HTTP) overrides(which func(name string) bool) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		if q.Header == nil {
			return
		}
		for name, value := range q.Header {
			if which(name) && !yield(name, value) {
				return
			}
		}
	}
}
