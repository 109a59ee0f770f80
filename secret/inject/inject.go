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
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/budget"
	"cloister/secret"
	"cloister/secret/inject/unpack"
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
	HTTP         *verdict.HTTP
	Binding      *secret.Binding
}

// A Judge decides, records and knows the values. Its methods are called by
// several goroutines.
type Judge interface {
	// AllowUse decides a use that its binding names, and records it. What cannot be
	// recorded is denied. It may wait for a person.
	AllowUse(ctx context.Context, u Use) verdict.Answer
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
	const place, risk = "name of a host", "whoever resolves it would be told"
	why = "the placeholder of the secret " + h.Name + " in the " + place + ": " + risk
	if err := s.judge.RecordUse(ctx, Use{Name: h.Name, Authority: a, Place: place}, true, risk); err != nil {
		why += "; " + err.Error()
	}
	return h.Name, why
}

// Edit is what is done with one request and its answer. also takes the request with
// another method, which was found in its body; its error is of a secret that went into
// the request and may not go into that one.
func (s *Session) Edit(ctx context.Context, h *verdict.HTTP) (out verdict.Edit, also func(*verdict.HTTP) error) {
	e := &edit{s: s, ctx: ctx, http: h}
	return verdict.Edit{Request: e.request, Response: e.response, Trailer: e.trailer, Frames: e.frames}, e.also
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

// inName is the secret whose placeholder is in the name of a header, or -1. HTTP/2
// writes names in small letters.
func (s *Session) inName(name string) int {
	name = strings.ToLower(name)
	return slices.IndexFunc(s.held, func(h Held) bool {
		return len(name) >= len(h.Placeholder.Core) && strings.Contains(name, strings.ToLower(h.Placeholder.Core))
	})
}
