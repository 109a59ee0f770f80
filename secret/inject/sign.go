package inject

import (
	"errors"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"cloister/egress/verdict"
	"cloister/internal/fieldname"
	"cloister/internal/reading"
	"cloister/internal/termsafe"
	"cloister/secret"
	"cloister/secret/sigv4"
)

// signing is a request that the placeholder of an access key has signed.
type signing struct {
	held    *Held
	binding *secret.Binding
	as      sigv4.Signature
	way     sigv4.Spelling
	request sigv4.Request
}

// errUnsigned is why a signature cannot be made anew.
type errUnsigned struct{ why string }

func (e *errUnsigned) Error() string { return e.why }

// signs finds the access key whose placeholder stands in an Authorization that is a
// signature; nil where there is none.
func (s *Session) signs(name, value string) *Held {
	if !fieldname.Same(name, "Authorization") || !sigv4.Is(value) {
		return nil
	}
	i := s.finder.In(value)
	if i < 0 || s.held[i].Part != "id" {
		return nil
	}
	return &s.held[i]
}

// tokens reports whether a header has the session's token of an access key, and
// nothing else.
func (s *Session) hasToken(name, value string) bool {
	i := s.finder.In(value)
	return i >= 0 && s.held[i].Part == "token" && value == s.held[i].Placeholder.Text &&
		fieldname.Same(name, sigv4.TokenHeader)
}

// part is another part of an access key.
func (s *Session) part(of *Held, part string) string {
	i := slices.IndexFunc(s.held, func(h Held) bool { return h.Name == of.Name && h.Part == part })
	if i < 0 {
		return ""
	}
	return s.held[i].Placeholder.Text
}

// signature holds a signature to the placeholder that made it and to what it is
// bound to, before anything of the request changes.
func (e *edit) signature(m *verdict.Message, held *Held) (*signing, error) {
	x, err := e.read(m, held)
	if err == nil {
		return x, nil
	}
	unsigned, ok := errors.AsType[*errUnsigned](err)
	if !ok {
		return nil, err
	}
	service := ""
	if x != nil {
		service = x.as.Service
	}
	return nil, e.unsigned(m, held, service, unsigned.why)
}

// unsigned refuses a request, in words that programs for that service show.
func (e *edit) unsigned(m *verdict.Message, held *Held, service, why string) error {
	u := Use{Name: held.Name, Authority: m.Authority, Method: e.http.Method, Path: m.Path, Place: "signature"}
	why = "the request is not signed anew: " + why
	if err := e.s.judge.RecordUse(e.ctx, u, true, why); err != nil {
		return err
	}
	v := verdict.Answer{Effect: "deny", Rule: "secret " + held.Name, Reason: "the secret " + held.Name + ": " + why}
	return forService(service, &verdict.Refused{Verdict: v})
}

// forService is a refusal that the programs of S3 can read: they take XML alone.
func forService(service string, r *verdict.Refused) *verdict.Refused {
	if service != "s3" {
		return r
	}
	words := append([]string{"cloister: " + r.Verdict.Reason}, r.Verdict.Hints...)
	// encoding/xml would cost every start 0.05 ms, and html escapes the same.
	text := html.EscapeString(termsafe.Text(strings.Join(words, "; ")))
	r.Answer = []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<Error><Code>AccessDenied</Code><Message>" + text +
		"</Message></Error>\n")
	r.ContentType = "application/xml"
	return r
}

// read reads a signature, and everything that it was made of.
func (e *edit) read(m *verdict.Message, held *Held) (*signing, error) {
	x := &signing{held: held}
	var err error
	if x.as, err = sigv4.Parse(strings.Join(m.Header.Values("Authorization"), ",")); err != nil {
		return nil, &errUnsigned{err.Error()}
	}
	if x.as.KeyID != held.Placeholder.Text {
		return x, &errUnsigned{"its credential is not the placeholder alone"}
	}
	if raw := e.http.Raw; !sigv4.SamePath(raw, m.Path) {
		return x, &errUnsigned{"its path is sent on in another spelling, which means another thing to the service"}
	}
	if why := unsignedField(m, x.as); why != "" {
		return x, &errUnsigned{why}
	}
	if err := e.bindSigned(m, x); err != nil {
		return x, err
	}
	x.request = sigv4.Request{
		Method: e.http.Method, Path: e.http.Raw, Query: e.http.Query,
		Time:   strings.Join(m.Header.Values(sigv4.DateHeader), ","),
		Header: func(name string) []string { return fieldsOf(m, name, true) },
	}
	at, err := x.request.Signed()
	if err != nil {
		return x, &errUnsigned{err.Error()}
	}
	if skew := time.Since(at).Abs(); skew > maxSkew || at.Format("20060102") != x.as.Day {
		return x, &errUnsigned{fmt.Sprintf("its time, %s, is not now", x.request.Time)}
	}
	if x.request.Payload, err = e.payload(m); err != nil {
		return x, err
	}
	var ok bool
	if x.way, ok = sigv4.Match(x.request, x.as, e.s.part(held, "secret")); !ok {
		return x, &errUnsigned{"it is not signed with the placeholder of the secret key, or was changed since"}
	}
	return x, nil
}

// bindSigned finds the binding that lets this request be signed: in each of its
// readings, with all that it names.
func (e *edit) bindSigned(m *verdict.Message, x *signing) error {
	r := e.words(m)
	r.Service, r.Region = x.as.Service, x.as.Region
	list := e.s.bindings(x.held)
	why, origin, hints := secret.WhyNot(list, r)
	for _, b := range list {
		if b.Sign != secret.KindAWS || refuses(b, r) {
			continue
		}
		beyond := e.beyond(m, b, x.as.Service)
		if beyond == "" {
			x.binding = b
			return nil
		}
		why, origin, hints = beyond, b.Origin, nil
	}
	u := Use{Name: x.held.Name, Authority: m.Authority, Method: e.http.Method, Path: m.Path, Place: "signature"}
	if err := e.s.judge.RecordUse(e.ctx, u, true, why); err != nil {
		return err
	}
	return forService(x.as.Service, &verdict.Refused{Verdict: verdict.Answer{
		Effect: "deny", Rule: "secret " + x.held.Name, Place: origin, Hints: hints,
		Reason: fmt.Sprintf("the secret %s does not sign this request: %s", x.held.Name, why),
	}})
}

// beyond is what of a request lies outside a binding: another reading, the source or
// destination of a copy or, where paths bound it, what sets who may use the bucket.
func (e *edit) beyond(m *verdict.Message, b *secret.Binding, service string) string {
	if why := e.refused(m, b); why != "" || len(b.Paths) == 0 || !strings.HasPrefix(service, "s3") {
		return why
	}
	if why := e.http.Leaves(reading.S3); why != "" {
		return "it is bound to " + b.To() + ", and " + why
	}
	for _, o := range e.http.AllOf(reading.S3) {
		r := e.words(m)
		if r.Path = o.Path; refuses(b, r) {
			return "it is bound to " + b.To() + ", and this names objects of the whole bucket in its body"
		}
	}
	return ""
}

// unsignedField is why the fields of a request cannot be signed: Amazon's want every
// x-amz- field signed, and one of each.
func unsignedField(m *verdict.Message, s sigv4.Signature) string {
	for name := range m.Header.All() {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "x-amz-") && !slices.Contains(s.Signed, name) {
			return "the header " + name + " is not among those that are signed"
		}
	}
	for _, name := range []string{sigv4.DateHeader, "Authorization"} {
		if len(m.Header.Values(name)) != 1 {
			return "it has not one header " + strings.ToLower(name)
		}
	}
	return ""
}

// ofTheGate are fields of one connection: they are written anew, so that no one can
// sign them.
func ofTheGate(name string) bool {
	return slices.Contains([]string{"connection", "transfer-encoding", "expect", "te", "trailer", "keep-alive", "upgrade",
		"proxy-connection"}, name)
}

// sign signs the request anew, as it is sent.
func (e *edit) sign(m *verdict.Message, x *signing) error {
	value, err := e.use(m, x.held, x.binding)
	if err != nil {
		if refused, ok := errors.AsType[*verdict.Refused](err); ok {
			return forService(x.as.Service, refused)
		}
		return err
	}
	key, ok := secret.OpenAWS(value)
	if !ok {
		return e.unsigned(m, x.held, x.as.Service,
			"what the vault has is no access key of Amazon's: cloister secret set "+x.held.Name+" --kind aws")
	}
	as := x.as
	for _, name := range as.Signed {
		if ofTheGate(name) {
			as = as.With(name, false)
		}
	}
	if key.Token.IsZero() {
		m.Header.Del(sigv4.TokenHeader)
	} else {
		m.Header.Set(sigv4.TokenHeader, key.Token.Reveal())
	}
	as = as.With(sigv4.TokenHeader, !key.Token.IsZero())
	as.KeyID = key.ID.Reveal()
	r := x.request
	r.Path, r.Query = m.Path, m.Query
	r.Header = func(name string) []string { return fieldsOf(m, name, false) }
	as.Sum = sigv4.Sum(r, as, x.way, key.Secret.Reveal())
	m.Header.Set("Authorization", as.String())
	return nil
}
