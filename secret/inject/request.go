package inject

import (
	"context"
	"strings"

	"cloister/egress/verdict"
	"cloister/secret"
	"cloister/secret/sigv4"
)

// An edit is one request with its answer.
type edit struct {
	s     *Session
	ctx   context.Context // the request's own, for functions that egress calls without one
	http  *verdict.HTTP
	asks  []secret.Request  // the request, and what a server may take it for
	head  verdict.Message   // of the request, for what is recorded of its frames
	used  string            // a secret that was swapped into the head; empty for none
	bound []*secret.Binding // of the secrets that were used
	scrub *secret.Scrubber  // of the answer
}

// request swaps what may be swapped, and refuses what is anywhere else.
func (e *edit) request(m *verdict.Message) error {
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
func (e *edit) target(m *verdict.Message) error {
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
func (e *edit) fields(m *verdict.Message) (*signing, error) {
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
