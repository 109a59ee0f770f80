package inject

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"cloister/egress/verdict"
	"cloister/secret"
)

// A Count is what became of one secret.
type Count struct {
	Uses, Refused int
	Last          time.Time
}

// Uses counts the uses of secrets. The zero Uses has seen none.
type Uses struct {
	mu    sync.Mutex
	names map[string]Count
}

// Add counts one.
func (u *Uses) Add(name string, allowed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.names == nil {
		u.names = map[string]Count{}
	}
	c := u.names[name]
	if allowed {
		c.Uses, c.Last = c.Uses+1, time.Now()
	} else {
		c.Refused++
	}
	u.names[name] = c
}

// Of is what became of a secret.
func (u *Uses) Of(name string) Count {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.names[name]
}

// text asks the judge, and gives the value that goes into the request.
func (e *edit) text(m *verdict.Message, h *Held, b *secret.Binding) (secret.Value, error) {
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
func (e *edit) use(m *verdict.Message, h *Held, b *secret.Binding) (secret.Value, error) {
	u := Use{Name: h.Name, Authority: m.Authority, Method: e.http.Method, Path: m.Path, Place: b.Place(), HTTP: e.http,
		Binding: b}
	if v := e.s.judge.AllowUse(e.ctx, u); !v.Allow {
		return secret.Value{}, &verdict.Refused{Verdict: v}
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
// hint is what the program gets of it.
func (e *edit) unsaid(m *verdict.Message, h *Held, b *secret.Binding, why, hint string) error {
	u := Use{Name: h.Name, Authority: m.Authority, Method: e.http.Method, Path: m.Path, Place: b.Place(), HTTP: e.http,
		Binding: b}
	if err := e.s.judge.RecordUse(e.ctx, u, true, why); err != nil {
		return err
	}
	return &verdict.Refused{Status: http.StatusBadGateway, Verdict: verdict.Answer{
		Effect: "deny", Rule: "secret " + h.Name, Place: b.Origin, Reason: "the secret " + h.Name + " cannot be had" + hint,
		Hints: []string{"on the host: cloister secret show " + h.Name},
	}}
}

// misplaced refuses a request with a placeholder where it may not be, with the
// words that would allow it where there are such.
func (e *edit) misplaced(m *verdict.Message, i int, place string) error {
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
	return &verdict.Refused{Verdict: verdict.Answer{
		Effect: "deny", Rule: "secret " + h.Name, Place: origin, Hints: hints,
		Reason: fmt.Sprintf("the placeholder of the secret %s in the %s: %s", h.Name, place, why),
	}}
}
