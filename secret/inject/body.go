package inject

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"cloister/egress/verdict"
	"cloister/internal/budget"
	"cloister/secret"
	"cloister/secret/inject/unpack"
)

// maxSwapped bounds a body that a secret is written into: it is held whole.
const maxSwapped = 1 << 20

const longSwapped = "a body that a secret may be written into holds at most 1 MiB, with the secret"

// unreadable refuses a body that cannot be searched.
func unreadable(err error) error {
	status := http.StatusUnsupportedMediaType
	if errors.Is(err, unpack.ErrCrowded) {
		status = http.StatusServiceUnavailable
	}
	return &verdict.Refused{Status: status, Verdict: verdict.Answer{
		Effect: "deny", Reason: "a body that cannot be searched for secrets: " + err.Error(),
	}}
}

// body looks at the request's body as it passes, and swaps where a binding asks
// for that.
func (e *edit) body(m *verdict.Message) error {
	if m.Length() == 0 {
		return nil
	}
	codings := tokens(m.Header.Values("Content-Encoding"))
	if e.bodyBound(m) && len(codings) == 0 {
		return e.swapBody(m)
	}
	if len(codings) > unpack.MostCodings {
		return unreadable(unpack.ErrCodings)
	}
	search := &search{edit: e, m: *m, find: e.s.finder.Stream(), from: m.Body()}
	if search.fresh = len(codings) == 0; !search.fresh {
		search.unpack(e.ctx, codings)
	}
	m.SetBody(search, m.Length())
	return nil
}

// bodyBound reports whether a binding names the body of this request.
func (e *edit) bodyBound(m *verdict.Message) bool {
	for i := range e.s.held {
		if e.fitting(m, &e.s.held[i], func(b *secret.Binding) bool { return b.Body }) != nil {
			return true
		}
	}
	return false
}

// swapBody reads the whole body and writes each placeholder that is bound to it
// anew.
func (e *edit) swapBody(m *verdict.Message) error {
	content := e.http.Content()
	if content.Odd != "" {
		return tooMuch(http.StatusUnsupportedMediaType,
			"a body that a secret may be written into, and nobody can tell how: "+content.Odd)
	}
	held, err := e.s.bodies.Whole(e.ctx, m.Body(), maxSwapped)
	switch {
	case errors.Is(err, budget.ErrFull):
		return tooMuch(http.StatusServiceUnavailable, "too many bodies at once that a secret may be written into")
	case errors.Is(err, budget.ErrLong):
		return tooMuch(http.StatusRequestEntityTooLarge, longSwapped)
	case err != nil:
		return err // the program's side broke
	}
	if err := e.writeBody(m, held, content.Type); err != nil {
		held.Close()
		return err
	}
	m.SetBody(held, int64(len(held.Bytes())))
	return nil
}

// writeBody swaps in a body of that type.
func (e *edit) writeBody(m *verdict.Message, held *budget.Whole, kind string) error {
	for i := range e.s.held {
		h := &e.s.held[i]
		b := e.fitting(m, h, func(b *secret.Binding) bool { return b.Body })
		if b == nil || !h.text(func(p string) bool { return bytes.Contains(held.Bytes(), []byte(p)) }) {
			continue
		}
		value, err := e.text(m, h, b)
		if err != nil {
			return err
		}
		real := []byte(escaped(value.Reveal(), kind))
		h.text(func(p string) bool {
			err = errors.Join(err, replace(held, []byte(p), real))
			return false // each of them
		})
		if err != nil {
			return err
		}
	}
	if i := e.s.finder.InBytes(held.Bytes()); i >= 0 {
		return e.misplaced(m, i, "body")
	}
	return nil
}

// replace writes a value in the place of a placeholder, which may stand there many times
// and be shorter.
func replace(held *budget.Whole, placeholder, value []byte) error {
	text := held.Bytes()
	n := bytes.Count(text, placeholder)
	switch {
	case n == 0:
		return nil
	case len(text)+n*(len(value)-len(placeholder)) > maxSwapped:
		return tooMuch(http.StatusRequestEntityTooLarge, longSwapped)
	case held.Replace(bytes.ReplaceAll(text, placeholder, value)) != nil:
		return tooMuch(http.StatusServiceUnavailable, "too many bodies at once that a secret is written into")
	}
	return nil
}

// escaped is a value as a body of that type has it.
func escaped(text, kind string) string {
	switch {
	case kind == "application/x-www-form-urlencoded":
		return url.QueryEscape(text)
	case strings.HasSuffix(kind, "json"):
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
	}
	return text
}
