package inject

import (
	"slices"

	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/reading"
	"cloister/secret"
)

// also judges by another reading of the request from here on.
func (e *edit) also(h *verdict.HTTP) error {
	e.http, e.asks = h, nil
	for _, b := range e.bound {
		if why := e.refused(&e.head, b); why != "" {
			return &verdict.Refused{Verdict: verdict.Answer{
				Effect: "deny", Rule: "secret " + b.Name, Place: b.Origin,
				Reason: "the body of a request with the secret " + b.Name + " asks for another method: " + why,
			}}
		}
	}
	return nil
}

// fitting is the first binding of a secret that names this request and place.
func (e *edit) fitting(m *verdict.Message, h *Held, at func(*secret.Binding) bool) *secret.Binding {
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

func (e *edit) words(m *verdict.Message) secret.Request {
	return secret.Request{Authority: m.Authority, Secure: m.Secure, Method: e.http.Method, Path: e.http.Path,
		BadPath: e.http.BadPath}
}

// readings are the request as it is, and as a server may take it that obeys what names
// another method, path or host: a binding must name all of them.
func (e *edit) readings(m *verdict.Message) []secret.Request {
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
func (e *edit) objects(m *verdict.Message, b *secret.Binding) (why string) {
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
func (e *edit) refused(m *verdict.Message, b *secret.Binding) (why string) {
	for _, r := range e.readings(m) {
		if why, _, _ := b.Refuses(r); why != "" {
			return why
		}
	}
	return e.objects(m, b)
}
