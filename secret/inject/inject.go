// Package inject puts real credentials in the place of placeholders in requests that
// leave a cloister.
//
// Promise: a placeholder is swapped only in a request that its binding names, over
// TLS, in the place that it names, after the Judge has said yes and recorded it.
// Anywhere else in a request that is read, plain, encoded or compressed, the
// request is refused; but the body of one that carries a secret where it belongs may
// mention placeholders, as the conversation of an agent with its model does, and
// goes as it is. What comes back is searched for every value that a secret of this
// session is known to have had, whether it was sent or not.
//
// It does not judge, keep values or know policy (a Judge does), and sees only
// requests that egress opens: it says which must be (Bound).
//
// Most readers want New, then Session.Edit.
package inject

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cloister/egress"
	"cloister/internal/authority"
	"cloister/internal/budget"
	"cloister/internal/reading"
	"cloister/secret"
	"cloister/secret/inject/unpack"
	"cloister/secret/sigv4"
)

// A Held is one secret of a session.
type Held struct {
	Name string
	// Part is which of secret.AWSParts it is, of an access key; empty for all others.
	Part        string
	Placeholder secret.Placeholder
	// Earlier are placeholders that the project had for it: a program may have kept one.
	Earlier []secret.Placeholder
}

// text is the placeholder of h that at finds, the one of now first.
func (h *Held) text(at func(text string) bool) bool {
	return at(h.Placeholder.Text) || slices.ContainsFunc(h.Earlier, func(p secret.Placeholder) bool { return at(p.Text) })
}

// A Use is one secret in one request, allowed or not.
type Use struct {
	Name         string
	Authority    authority.Authority
	Method, Path string
	Place        string // where in the request
	HTTP         *egress.HTTP
	Binding      *secret.Binding
}

// A Judge decides, records and knows the values. Its methods are called by
// several goroutines.
type Judge interface {
	// AllowUse decides a use that its binding names, and records it. What cannot be
	// recorded is denied. It may wait for a person.
	AllowUse(ctx context.Context, u Use) egress.Verdict
	// RecordUse records a placeholder that was seen and not swapped, and whether the
	// request is refused for it; after an error it is.
	RecordUse(ctx context.Context, u Use, refused bool, why string) error
	// Value is the secret as of now.
	Value(ctx context.Context, name string) (secret.Value, error)
}

// Session are the secrets of one session.
type Session struct {
	held    []Held
	foreign []Foreign // found by indexes behind those of held
	finder  *secret.Finder
	judge   Judge
	memory  *unpack.Share
	most    int64 // bytes of a body to unpack: unpack.Most, but in tests
	bound   atomic.Pointer[map[string][]*secret.Binding]
	bodies  *budget.Share // for those that are read whole

	values *Values
	mu     sync.Mutex // of making a cleaner, and of sites
	scrub  atomic.Pointer[cleaner]
	sites  map[string]bool // where a value has been sent to, by authority.Authority.Site
}

// New is a session with these secrets, bound by their names, that takes of this memory
// to look into compressed bodies. What comes back is searched for their values, as far
// as these are known. Placeholders that are foreign to it are refused by name.
func New(held []Held, bound map[string][]*secret.Binding, judge Judge, memory *budget.Share, values *Values,
	foreign ...Foreign) *Session {
	var cores []secret.Sought
	for i, h := range held {
		for _, p := range append([]secret.Placeholder{h.Placeholder}, h.Earlier...) {
			cores = append(cores, secret.Sought{Core: p.Core, Index: i})
		}
	}
	for i, f := range foreign {
		cores = append(cores, secret.Sought{Core: f.Core, Index: len(held) + i, Plain: true})
	}
	s := &Session{held: held, finder: secret.FinderOf(cores), foreign: foreign, judge: judge, memory: unpack.Of(memory),
		bodies: memory, most: unpack.Most, values: values}
	s.Rebind(bound)
	return s
}

// Rebind changes where the secrets may go, from the next request on.
func (s *Session) Rebind(bound map[string][]*secret.Binding) { s.bound.Store(&bound) }

func (s *Session) bindings(h *Held) []*secret.Binding { return (*s.bound.Load())[h.Name] }

// Bound reports whether a secret is bound to a destination: a connection to it must
// be opened.
func (s *Session) Bound(a authority.Authority) bool {
	for i := range s.held {
		if slices.ContainsFunc(s.bindings(&s.held[i]), func(b *secret.Binding) bool { return b.Covers(a) }) {
			return true
		}
	}
	return false
}

// BoundHost reports whether a secret is bound to the host, at any port.
func (s *Session) BoundHost(a authority.Authority) bool {
	for i := range s.held {
		if slices.ContainsFunc(s.bindings(&s.held[i]), func(b *secret.Binding) bool { return b.CoversHost(a) }) {
			return true
		}
	}
	return false
}

// Named looks for a placeholder in the name of a host, which whoever resolves it is
// told: also in pieces with dots between them, and in letters of any case, as names
// are. It records one, and gives the name of its secret and why it is refused;
// nothing where there is none.
func (s *Session) Named(ctx context.Context, a authority.Authority) (name, why string) {
	host := strings.ReplaceAll(strings.ToLower(a.Host()), ".", "")
	i := s.finder.In(host)
	if i < 0 {
		i = slices.IndexFunc(s.held, func(h Held) bool {
			core := strings.ReplaceAll(strings.ToLower(h.Placeholder.Core), ".", "")
			return strings.Contains(host, core) || strings.Contains(host, strings.ReplaceAll(core, "_", "-"))
		})
	}
	if i < 0 {
		return "", ""
	}
	if i >= len(s.held) {
		return s.foreign[i-len(s.held)].Name, "a placeholder of the secret " + s.foreign[i-len(s.held)].Name +
			" in the name of a host"
	}
	h := &s.held[i]
	const place, told = "name of a host", "whoever resolves it would be told"
	why = "the placeholder of the secret " + h.Name + " in the " + place + ": " + told
	if err := s.judge.RecordUse(ctx, Use{Name: h.Name, Authority: a, Place: place}, true, told); err != nil {
		why += "; " + err.Error()
	}
	return h.Name, why
}

// Edit is what is done with one request and its answer. also takes the request with
// another method, which was found in its body; its error is of a secret that went into
// the request and may not go into that one.
func (s *Session) Edit(ctx context.Context, h *egress.HTTP) (out egress.Edit, also func(*egress.HTTP) error) {
	e := &edit{s: s, ctx: ctx, http: h}
	return egress.Edit{Request: e.request, Response: e.response, Trailer: e.trailer, Frames: e.frames}, e.also
}

// Says reports whether a binding to that destination has that use.
func (s *Session) Says(a authority.Authority, use string) bool {
	for i := range s.held {
		if slices.ContainsFunc(s.bindings(&s.held[i]), func(b *secret.Binding) bool {
			return b.Use == use && b.Covers(a)
		}) {
			return true
		}
	}
	return false
}

// MethodMatters reports whether a binding to that destination has a word on the method.
func (s *Session) MethodMatters(a authority.Authority) bool {
	for i := range s.held {
		if slices.ContainsFunc(s.bindings(&s.held[i]), func(b *secret.Binding) bool {
			return len(b.Methods) > 0 && b.Covers(a)
		}) {
			return true
		}
	}
	return false
}

// also judges by another reading of the request from here on.
func (e *edit) also(h *egress.HTTP) error {
	e.http, e.asks = h, nil
	for _, b := range e.bound {
		if why := e.refused(&e.head, b); why != "" {
			return &egress.Refused{Verdict: egress.Verdict{
				Effect: "deny", Rule: "secret " + b.Name, Place: b.Origin,
				Reason: "the body of a request with the secret " + b.Name + " asks for another method: " + why,
			}}
		}
	}
	return nil
}

// mayEcho reports whether a destination may say a value of the session: a secret is bound
// to it, or one went to a host of the same owner.
func (s *Session) mayEcho(a authority.Authority) bool {
	if s.BoundHost(a) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sites[a.Site()]
}

// sentTo remembers where a value goes.
func (s *Session) sentTo(a authority.Authority) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sites == nil {
		s.sites = map[string]bool{}
	}
	s.sites[a.Site()] = true // as many as bindings name, at most
}

// An edit is one request with its answer.
type edit struct {
	s     *Session
	ctx   context.Context // the request's own, for functions that egress calls without one
	http  *egress.HTTP
	asks  []secret.Request  // the request, and what a server may take it for
	head  egress.Message    // of the request, for what is recorded of its frames
	used  string            // a secret that was swapped into the head; empty for none
	bound []*secret.Binding // of the secrets that were used
	scrub *secret.Scrubber  // of the answer
}

// request swaps what may be swapped, and refuses what is anywhere else.
func (e *edit) request(m *egress.Message) error {
	if err := e.target(m); err != nil {
		return err
	}
	signed, err := e.fields(m)
	if err != nil {
		return err
	}
	if e.s.Bound(m.Authority) {
		// What is compressed on the way back would have to be opened to be searched.
		m.Header.Set("Accept-Encoding", "identity")
	}
	if signed == nil && e.s.mayEcho(m.Authority) {
		// A value that comes in pieces is not known again; the whole is a good answer.
		// But to programs that fetch large objects of a store in parts, and sign each.
		m.Header.Del("Range")
	}
	e.head = *m
	if signed != nil {
		if err := e.sign(m, signed); err != nil {
			return err
		}
	}
	return e.body(m)
}

// target looks at path and query.
func (e *edit) target(m *egress.Message) error {
	if i := e.s.finder.In(m.Path); i >= 0 {
		return e.misplaced(m, i, "path")
	}
	if m.Query == "" || e.s.finder.In(m.Query) < 0 {
		return nil
	}
	pairs := strings.Split(m.Query, "&")
	for n, pair := range pairs {
		i := e.s.finder.In(pair)
		if i < 0 {
			continue
		}
		if i >= len(e.s.held) {
			return e.misplaced(m, i, "query")
		}
		h := &e.s.held[i]
		var write func(string) string
		b := e.fitting(m, h, func(b *secret.Binding) bool {
			return h.text(func(text string) (ok bool) {
				write, ok = b.InQuery(pair, text)
				return ok
			})
		})
		if b == nil {
			return e.misplaced(m, i, "query")
		}
		real, err := e.text(m, h, b)
		if err != nil {
			return err
		}
		pairs[n] = write(real.Reveal())
	}
	m.Query = strings.Join(pairs, "&")
	return nil
}

// fields looks at every header. It gives the signature that is to be made anew, nil
// for none.
func (e *edit) fields(m *egress.Message) (*signing, error) {
	type found struct {
		name  string
		i     int
		write func(string) string
		b     *secret.Binding
	}
	var list []found
	var signer *Held
	token := -1
	for name, value := range m.Header.All() {
		if i := e.s.inName(name); i >= 0 {
			return nil, e.misplaced(m, i, "name of a header")
		}
		i := e.s.finder.In(value)
		if i < 0 {
			continue
		}
		if i >= len(e.s.held) {
			return nil, e.misplaced(m, i, "header "+strings.ToLower(name))
		}
		h := &e.s.held[i]
		if by := e.s.signs(name, value); by != nil && signer == nil {
			signer = by
			continue
		}
		if e.s.hasToken(name, value) && token < 0 {
			token = i
			continue
		}
		f := found{name: name, i: i}
		f.b = e.fitting(m, h, func(b *secret.Binding) bool {
			return h.text(func(text string) (ok bool) {
				f.write, ok = b.InField(name, value, text)
				return ok && e.s.finder.In(f.write("")) < 0
			})
		})
		if f.b == nil || len(m.Header.Values(name)) != 1 {
			return nil, e.misplaced(m, i, "header "+strings.ToLower(name))
		}
		list = append(list, f)
	}
	if token >= 0 && (signer == nil || signer.Name != e.s.held[token].Name) {
		return nil, e.misplaced(m, token, "header "+strings.ToLower(sigv4.TokenHeader))
	}
	var signed *signing
	if signer != nil {
		var err error
		if signed, err = e.signature(m, signer); err != nil {
			return nil, err
		}
	}
	for _, f := range list {
		real, err := e.text(m, &e.s.held[f.i], f.b)
		if err != nil {
			return nil, err
		}
		m.Header.Set(f.name, f.write(real.Reveal()))
	}
	return signed, nil
}

// inName is the secret whose placeholder is in the name of a header, or -1. HTTP/2
// writes names in small letters.
func (s *Session) inName(name string) int {
	name = strings.ToLower(name)
	return slices.IndexFunc(s.held, func(h Held) bool {
		return len(name) >= len(h.Placeholder.Core) && strings.Contains(name, strings.ToLower(h.Placeholder.Core))
	})
}

// fitting is the first binding of a secret that names this request and place.
func (e *edit) fitting(m *egress.Message, h *Held, at func(*secret.Binding) bool) *secret.Binding {
	for _, b := range e.s.bindings(h) {
		if e.refused(m, b) == "" && at(b) {
			return b
		}
	}
	return nil
}

func refuses(b *secret.Binding, r secret.Request) bool {
	why, _, _ := b.Refuses(r)
	return why != ""
}

func (e *edit) words(m *egress.Message) secret.Request {
	return secret.Request{Authority: m.Authority, Secure: m.Secure, Method: e.http.Method, Path: e.http.Path,
		BadPath: e.http.BadPath}
}

// readings are the request as it is, and as a server may take it that obeys what names
// another method, path or host: a binding must name all of them.
func (e *edit) readings(m *egress.Message) []secret.Request {
	if e.asks != nil {
		return e.asks
	}
	r := e.words(m)
	e.asks = append(e.asks, r)
	others, err := e.http.Others()
	if err != nil {
		e.asks = append(e.asks, secret.Request{Method: r.Method, BadPath: err}) // which no binding names
		return e.asks
	}
	for i := range others {
		o := &others[i]
		other := r
		other.Authority, other.Method, other.Path, other.BadPath = o.To, o.Method, o.Path, o.BadPath
		if o.BadTo != nil {
			other.Authority, other.BadPath = authority.Authority{}, o.BadTo
		}
		e.asks = append(e.asks, other)
	}
	return e.asks
}

// objects are what the request names besides: a binding must name each, under one of
// its names.
func (e *edit) objects(m *egress.Message, b *secret.Binding) (why string) {
	objects := e.http.Objects()
	for i := range objects {
		o := &objects[i]
		r := e.words(m)
		if !slices.ContainsFunc(o.Names, func(n reading.Name) bool {
			r.Authority, r.Path, r.BadPath = n.To, n.Path, nil
			return o.Bad == nil && !refuses(b, r)
		}) {
			why = "it is bound to " + b.To() + ", and " + o.Says + " names " + o.String()
			if o.Bad != nil {
				why += ": " + o.Bad.Error()
			}
			return why
		}
	}
	return ""
}

// refused is why a binding does not name the request in each of its readings, with
// all that it names.
func (e *edit) refused(m *egress.Message, b *secret.Binding) (why string) {
	for _, r := range e.readings(m) {
		if why, _, _ := b.Refuses(r); why != "" {
			return why
		}
	}
	return e.objects(m, b)
}

// text asks the judge, and gives the value that goes into the request.
func (e *edit) text(m *egress.Message, h *Held, b *secret.Binding) (secret.Value, error) {
	value, err := e.use(m, h, b)
	if err != nil {
		return secret.Value{}, err
	}
	if _, ok := secret.OpenAWS(value); ok {
		const why = "it is an access key, which signs and is never sent: sign: aws"
		return secret.Value{}, e.unsaid(m, h, b, why, ": "+why)
	}
	return value, nil
}

// use asks the judge, and gives the value.
func (e *edit) use(m *egress.Message, h *Held, b *secret.Binding) (secret.Value, error) {
	u := Use{Name: h.Name, Authority: m.Authority, Method: e.http.Method, Path: m.Path, Place: b.Place(), HTTP: e.http,
		Binding: b}
	if v := e.s.judge.AllowUse(e.ctx, u); !v.Allow {
		return secret.Value{}, &egress.Refused{Verdict: v}
	}
	value, err := e.s.judge.Value(e.ctx, h.Name)
	if err != nil {
		// What its command or its service said is for the host alone.
		return secret.Value{}, e.unsaid(m, h, b, err.Error(), "")
	}
	e.s.values.Learn(h.Name, value)
	e.used, e.bound = h.Name, append(e.bound, b)
	e.s.sentTo(m.Authority)
	return value, nil
}

// unsaid refuses a request whose secret may be used, and cannot be. Why is recorded;
// told is what the program gets of it.
func (e *edit) unsaid(m *egress.Message, h *Held, b *secret.Binding, why, told string) error {
	u := Use{Name: h.Name, Authority: m.Authority, Method: e.http.Method, Path: m.Path, Place: b.Place(), HTTP: e.http,
		Binding: b}
	if err := e.s.judge.RecordUse(e.ctx, u, true, why); err != nil {
		return err
	}
	return &egress.Refused{Status: http.StatusBadGateway, Verdict: egress.Verdict{
		Effect: "deny", Rule: "secret " + h.Name, Place: b.Origin, Reason: "the secret " + h.Name + " cannot be had" + told,
		Hints: []string{"on the host: cloister secret show " + h.Name},
	}}
}

// misplaced refuses a request with a placeholder where it may not be, with the
// words that would allow it where there are such.
func (e *edit) misplaced(m *egress.Message, i int, place string) error {
	u := Use{Authority: m.Authority, Method: e.http.Method, Path: m.Path, Place: place}
	if i >= len(e.s.held) {
		return e.stale(u, &e.s.foreign[i-len(e.s.held)])
	}
	h := &e.s.held[i]
	u.Name = h.Name
	if (place == "body" || place == inFrame) && e.used != "" {
		return e.s.judge.RecordUse(e.ctx, u, false,
			"not swapped, and passed on: the request carries the secret "+e.used+" where it belongs")
	}
	r := e.words(m)
	for _, other := range e.readings(m)[1:] {
		if !slices.ContainsFunc(e.s.bindings(h), func(b *secret.Binding) bool { return !refuses(b, other) }) {
			r = other // what it says it is, by a field that servers obey
		}
	}
	why, origin, hints := secret.WhyNot(e.s.bindings(h), r)
	for _, b := range e.s.bindings(h) {
		if object := e.objects(m, b); !refuses(b, r) && object != "" {
			why, origin, hints = object, b.Origin, nil
		}
	}
	if err := e.s.judge.RecordUse(e.ctx, u, true, why); err != nil {
		return err
	}
	return &egress.Refused{Verdict: egress.Verdict{
		Effect: "deny", Rule: "secret " + h.Name, Place: origin, Hints: hints,
		Reason: fmt.Sprintf("the placeholder of the secret %s in the %s: %s", h.Name, place, why),
	}}
}

// response searches the answer for the values of secrets.
func (e *edit) response(m *egress.Message) error {
	if e.scrub = e.s.Scrubber(); e.scrub == nil {
		return nil
	}
	m.Header.Map(func(_, value string) string {
		text, _ := e.scrub.Text(value)
		return text
	})
	if m.Length() == 0 || m.Status == http.StatusSwitchingProtocols || e.http.Method == http.MethodHead {
		return nil
	}
	codings := tokens(m.Header.Values("Content-Encoding"))
	if len(codings) == 0 {
		m.SetBody(&scrubReader{from: m.Body(), scrub: e.scrub.Stream()}, m.Length())
		return nil
	}
	open, err := e.s.memory.Reader(e.ctx, codings, m.Body())
	if errors.Is(err, unpack.ErrCoding) && !e.s.Bound(m.Authority) {
		return nil // nothing of ours was sent there
	}
	if err != nil {
		return fmt.Errorf("an answer that cannot be searched for secrets: %w", err)
	}
	m.Header.Del("Content-Encoding")
	m.SetBody(&scrubReader{from: open, scrub: e.scrub.Stream()}, -1)
	return nil
}

func (e *edit) trailer(h *egress.Header) {
	if e.scrub == nil {
		return
	}
	h.Map(func(_, value string) string {
		text, _ := e.scrub.Text(value)
		return text
	})
}

// A scrubReader is a body without the values. What may be the beginning of one
// waits for the next bytes, nothing else does.
type scrubReader struct {
	from  io.Reader
	scrub *secret.Scrub
	ready []byte
	buf   []byte
	err   error
}

func (r *scrubReader) Read(p []byte) (int, error) {
	for len(r.ready) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.buf == nil {
			r.buf = make([]byte, 16<<10)
		}
		n, err := r.from.Read(r.buf)
		r.ready = r.scrub.Write(r.ready[:0], r.buf[:n])
		if err != nil {
			r.err = err
			if errors.Is(err, io.EOF) {
				r.ready = r.scrub.Flush(r.ready)
			}
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	return n, nil
}

// tokens are the words of a list in fields, lower case.
func tokens(values []string) []string {
	var out []string
	for _, v := range values {
		for word := range strings.SplitSeq(v, ",") {
			if word = strings.ToLower(strings.TrimSpace(word)); word != "" && word != "identity" {
				out = append(out, word)
			}
		}
	}
	return out
}
