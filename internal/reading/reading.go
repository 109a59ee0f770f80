// Package reading finds every way in which a server may take one HTTP request.
//
// Promise: Read is called once for a request, where it comes in, and all who judge it
// use the Request alone: the method, path and host that were sent, each other one that
// a field or a query key asks for and that some server obeys, and each further object
// that the request names (the source or destination of a copy). A value that servers
// read in two ways is given as one that has no single reading (BadPath, Bad), or as two
// readings. The common request, which has one reading, costs no allocation.
//
// It knows no rule, refuses nothing, and does not read bodies by itself: Content says
// what a body claims to be, Form finds what asks for another method in one that passes,
// and JSON reports whether a text can be read as JSON in one charset only.
//
// Most readers want Request.
package reading

import (
	"errors"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"cloister/internal/authority"
	"cloister/internal/fieldname"
	"cloister/internal/urlpath"
)

// A Request is one request with its readings.
type Request struct {
	To     authority.Authority
	Method string
	Path   urlpath.Path
	// BadPath is why the path has no one spelling; Path means nothing then.
	BadPath error
	Raw     string // the path as the program wrote it
	Query   string // as sent, without its question mark
	Header  iter.Seq2[string, string]
	// Body says that a body follows: of a GET or DELETE some servers read it.
	Body bool
	// Look reads the beginning of the body, for a person who is asked about the request. A
	// second call gives the same. Nil where no body follows.
	Look func() (Beginning, error)

	noted   bool
	read    bool
	crowded bool
	gives   string // what its body gives to others, where that is taken for granted
	// continues says that it goes on with another's upload, where that is taken for granted.
	continues string
	found     *found
	others    []Other
	objects   []Object
}

// An Other is the request as a server takes it that obeys what Says names.
type Other struct {
	Says    string
	To      authority.Authority
	BadTo   error // the host that is named is none
	Method  string
	Path    urlpath.Path
	BadPath error
	Query   string

	changed uint8
}

// What of a request an Other changes.
const (
	ofMethod uint8 = 1 << iota
	ofPath
	ofHost
)

// Most bounds the other readings of one request, and the objects that it names.
const Most = 12

// ErrCrowded is why a request with more readings than Most cannot be judged.
var ErrCrowded = errors.New("the request says too many times that it is another one than it looks")

// Target fills in path and query of a request line.
func (r *Request) Target(target string) {
	r.Raw, r.Query, _ = strings.Cut(target, "?")
	r.Path, r.BadPath = urlpath.Parse(r.Raw)
}

// Note takes one field, before Read: a caller that has them in a list calls it for each, since a
// walk through Header costs an allocation.
func (r *Request) Note(name, value string) {
	r.noted = true
	if kind := kindOf(name); kind != plain && (kind != batch || holdsRequests(value)) {
		r.add(kind, "the field "+name, name, value)
	}
}

// Read finds the readings. A second call changes nothing.
func (r *Request) Read() {
	if r.read {
		return
	}
	r.read = true
	if r.Header != nil && !r.noted {
		for name, value := range r.Header {
			r.Note(name, value)
		}
	}
	for rest := r.Query; rest != ""; {
		var key, value string
		key, value, rest = nextPair(rest)
		switch kind := kindOf(key); {
		case isMethodKey(key):
			r.add(method, "the query key "+key, key, unescaped(value))
		case carriesFields(key):
			r.add(batch, "the query key "+key, key, "")
		case kind == source || kind == method: // presigned requests have fields in the query
			r.add(kind, "the query key "+key, key, unescaped(value))
		}
	}
	if r.BadPath == nil && isBatch(r.Path) {
		r.add(batch, "its path", "", "")
	}
	if upper := capitals(r.Method); upper != r.Method { // as Django reads it
		r.add(method, "its method in capitals", "", upper)
	}
	if r.found != nil {
		r.combine(r.found)
		r.inside(r.found)
	}
	r.findObjects()
}

// As is the request in another reading.
func (o *Other) As(r *Request) Request {
	out := *r
	out.To, out.Method, out.Path, out.BadPath, out.Query = o.To, o.Method, o.Path, o.BadPath, o.Query
	return out
}

// Others are the readings beside the request as it was sent; an error is ErrCrowded.
func (r *Request) Others() ([]Other, error) {
	r.Read()
	if r.crowded {
		return nil, ErrCrowded
	}
	return r.others, nil
}

// Objects are what the request names beside its path.
func (r *Request) Objects() []Object {
	r.Read()
	return r.objects
}

// Values are the query's keys with their values; an error where servers read it in
// two ways.
func (r *Request) Values() (url.Values, error) { return url.ParseQuery(r.Query) }

// Fields are the values of one field, in each spelling that servers take for it.
func (r *Request) Fields(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if r.Header == nil {
			return
		}
		for n, v := range r.Header {
			if fieldname.Same(n, name) && !yield(v) {
				return
			}
		}
	}
}

// said is a value with what says it.
type said struct{ says, value, name string }

// listed are the values of a list.
func (s said) listed() []said {
	if strings.IndexByte(s.value, ',') < 0 {
		return []said{s}
	}
	var out []said
	for value := range strings.SplitSeq(s.value, ",") {
		if len(out) <= Most { // more have no single reading
			out = append(out, said{s.says, value, s.name})
		}
	}
	return out
}

// found is what the fields and keys of one request say.
type found struct {
	methods, paths, prefixes, hosts, sources, targets, batches []said

	account bool
}

func (r *Request) add(k kind, says, name, value string) {
	if r.found == nil {
		r.found = &found{}
	}
	f, s := r.found, said{says, value, name}
	switch k {
	case method: // method-override takes the first of a list
		f.methods = append(f.methods, s.listed()...)
	case path:
		f.paths = append(f.paths, s)
		if _, query, has := strings.Cut(value, "?"); has { // its query is read like the request's own
			r.addMethods(says, query)
		}
	case prefix: // Werkzeug's ProxyFix takes the last of a list, Spring joins all
		f.prefixes = append(f.prefixes, s)
		if list := s.listed(); len(list) > 1 {
			f.prefixes = append(f.prefixes, list...)
		}
	case host: // Express takes the first of a list, ProxyFix the last
		f.hosts = append(f.hosts, s.listed()...)
	case forwarded:
		for _, h := range forwardedHosts(value) {
			f.hosts = append(f.hosts, said{says, h, name})
		}
	case source:
		f.sources = append(f.sources, s)
	case target:
		f.targets = append(f.targets, s)
	case account:
		f.account = true
	case batch:
		f.batches = append(f.batches, s)
	case plain:
	}
}

// combine makes the readings: each method with each path at each host.
func (r *Request) combine(f *found) {
	if len(f.methods)+len(f.paths)+len(f.prefixes)+len(f.hosts) == 0 {
		return
	}
	base := Other{To: r.To, Method: r.Method, Path: r.Path, BadPath: r.BadPath, Query: r.Query}
	all := []Other{base}
	with := func(dimension uint8, change func(o *Other) bool, says string) {
		for _, o := range slices.Clip(all) {
			if len(all) > Most {
				r.crowded = true
				return
			}
			// One request has one method, one path and one host: not two overrides at once.
			if before := o.Says; o.changed&dimension == 0 && change(&o) {
				if o.Says = says; before != "" {
					o.Says = before + " with " + says
				}
				o.changed |= dimension
				all = append(all, o)
			}
		}
	}
	var methods []string
	for _, m := range f.methods {
		name := capitals(strings.TrimSpace(m.value))
		if name == "" || name == r.Method || slices.Contains(methods, name) {
			continue
		}
		methods = append(methods, name)
		with(ofMethod, func(o *Other) bool { o.Method = name; return true }, m.says)
	}
	for _, p := range f.paths {
		with(ofPath, func(o *Other) bool { return o.moveTo(p.value) && o.differs(r) }, p.says)
	}
	for _, p := range f.prefixes {
		with(ofPath, func(o *Other) bool { return o.below(p.value, r) && o.differs(r) }, p.says)
		with(ofPath, func(o *Other) bool { return o.without(p.value, r) && o.differs(r) }, p.says)
	}
	for _, h := range f.hosts {
		with(ofHost, func(o *Other) bool { return o.at(h.value, r.To) }, h.says)
	}
	r.others = all[1:]
}

func (o *Other) differs(r *Request) bool {
	return o.BadPath != nil || r.BadPath != nil || o.Query != r.Query || o.Path.Wire() != r.Path.Wire()
}

// moveTo takes a path, or a whole URL, in the place of the request's own.
func (o *Other) moveTo(value string) bool {
	value = strings.TrimSpace(value)
	if _, rest, ok := strings.Cut(value, "://"); ok {
		value = "/"
		if i := strings.IndexAny(rest, "/?"); i >= 0 {
			value = rest[i:]
		}
	}
	value, _, _ = strings.Cut(value, "#")
	text, query, has := strings.Cut(value, "?")
	if text == "" && !has {
		return false
	}
	if !strings.HasPrefix(text, "/") {
		text = "/" + text
	}
	o.Path, o.BadPath = urlpath.Parse(text)
	if has {
		o.Query = query
	}
	return true
}

// below is the request's path below a prefix.
func (o *Other) below(prefix string, r *Request) bool {
	prefix = strings.TrimSuffix("/"+strings.TrimLeft(strings.TrimSpace(prefix), "/"), "/")
	o.Path, o.BadPath = urlpath.Parse(prefix + r.sent())
	return prefix != ""
}

// sent is the path as the program wrote it, or as it reads.
func (r *Request) sent() string {
	if r.Raw == "" {
		return r.Path.Wire()
	}
	return r.Raw
}

// without is what follows a prefix in the request's path: an application that is
// mounted below one reads that (SCRIPT_NAME of WSGI).
func (o *Other) without(prefix string, r *Request) bool {
	prefix = strings.TrimSpace(prefix)
	_, rest, ok := strings.Cut(r.sent(), prefix)
	if prefix == "" || prefix == "/" || !ok {
		return false
	}
	o.Path, o.BadPath = urlpath.Parse("/" + strings.TrimPrefix(rest, "/"))
	return true
}

// at is the request at another host; its port is the request's own unless it is said.
func (o *Other) at(value string, to authority.Authority) bool {
	if !to.IsValid() {
		return false
	}
	a, err := authority.ParseHostPort(strings.TrimSpace(value), to.Port())
	if err != nil {
		o.BadTo = err
		return true
	}
	o.To = a
	return a.Host() != to.Host()
}

// forwardedHosts are the hosts of the field Forwarded (RFC 7239), and of a list of
// several.
func forwardedHosts(value string) []string {
	var out []string
	for _, part := range strings.FieldsFunc(value, func(c rune) bool { return c == ',' || c == ';' }) {
		if key, value, ok := strings.Cut(part, "="); ok && strings.EqualFold(strings.TrimSpace(key), "host") {
			out = append(out, strings.Trim(strings.TrimSpace(value), `"`))
		}
	}
	return out
}

// nextPair is the first key of a query as a server decodes it, its value as it stands,
// and the rest.
func nextPair(query string) (key, value, rest string) {
	if i := strings.IndexAny(query, "&;"); i >= 0 {
		query, rest = query[:i], query[i+1:]
	}
	key, value, _ = strings.Cut(query, "=")
	return unescaped(key), value, rest
}

// pairs are all of them.
func pairs(query string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for query != "" {
			var key, value string
			if key, value, query = nextPair(query); !yield(key, value) {
				return
			}
		}
	}
}

// unescaped is a piece of a query or a form as a lenient server reads it: what is no
// escape stands for itself, and %u005f is IIS's.
func unescaped(text string) string {
	if strings.IndexByte(text, '%') < 0 && strings.IndexByte(text, '+') < 0 {
		return text
	}
	if out, err := url.QueryUnescape(text); err == nil {
		return out
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case rest[0] == '+':
			out = append(out, ' ')
			continue
		case rest[0] == '%' && len(rest) > 2:
			if n, err := strconv.ParseUint(rest[1:3], 16, 8); err == nil {
				out, i = append(out, byte(n)), i+2
				continue
			}
			if len(rest) > 5 && rest[1]|0x20 == 'u' {
				if n, err := strconv.ParseUint(rest[2:6], 16, 7); err == nil {
					out, i = append(out, byte(n)), i+5
					continue
				}
			}
		}
		out = append(out, rest[0])
	}
	return string(out)
}

func capitals(method string) string {
	for i := range len(method) {
		if method[i] >= 'a' && method[i] <= 'z' {
			return strings.ToUpper(method)
		}
	}
	return method
}
