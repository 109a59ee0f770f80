// Package placeholders makes what a session gets in place of the secrets that are
// bound to it.
//
// Promise: nothing in it is a secret's value; a session that is taken back has what it
// had; a secret that is not there, or does not fit its binding, is reported by name.
//
// It swaps nothing (secret/inject does) and keeps no value.
//
// Most readers want [Place].
package placeholders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloister/api"
	"cloister/config"
	"cloister/policyset"
	"cloister/secret"
	"cloister/secret/inject"
	"cloister/secret/vault"
)

// Placed is what a session gets of the secrets that are bound.
type Placed struct {
	Held    []inject.Held
	Foreign []inject.Foreign
	Env     map[string]string
	Given   []api.Placeholder
	Logins  []api.PasswordLogin
	Notices []string
	Files   []api.LoginFile

	ledger  *Ledger
	project string
}

// A Vault has the values of secrets as of now.
type Vault interface {
	Get(ctx context.Context, name string) (secret.Value, error)
}

// Place makes the placeholders of a new session, or takes those of one that is
// taken back. The command of a secret may take its time.
func Place(ctx context.Context, v Vault, l *Ledger, project string, in *policyset.Scope, resume *api.Resume) Placed {
	p := Placed{ledger: l, project: project}
	p.Env = map[string]string{}
	for _, s := range in.Secrets {
		if i := slices.IndexFunc(p.Held, func(h inject.Held) bool { return h.Name == s.Name }); i >= 0 {
			if err := fits(s, p.Held[i].Part != ""); err != nil {
				p.Notices = append(p.Notices, err.Error())
				continue
			}
			p.fill(s)
			continue
		}
		value, err := v.Get(ctx, s.Name)
		if resume != nil {
			if p.resume(s, resume.Secrets); err != nil {
				p.Notices = append(p.Notices, "answers are not searched for the value of the secret "+s.Name+": "+err.Error())
			}
			continue
		}
		switch {
		case errors.Is(err, vault.ErrNotFound):
			if text := in.Missing(s); !slices.Contains(p.Notices, text) {
				p.Notices = append(p.Notices, text)
			}
			continue
		case err != nil: // it may be there when it is used
			p.Notices = append(p.Notices, err.Error())
			if s.Sign != "" {
				continue // what it looks like is not known
			}
		}
		if err := p.make(s, value, in.Login(s.Name) != nil); err != nil {
			p.Notices = append(p.Notices, err.Error())
			continue
		}
		p.fill(s)
	}
	p.place(in.Logins)
	p.Foreign = l.Foreign(project, p.Held)
	return p
}

// make makes the placeholders of one secret.
func (p *Placed) make(s config.Secret, value secret.Value, lasting bool) error {
	key, isKey := secret.OpenAWS(value)
	if err := fits(s, isKey); err != nil {
		return err
	}
	switch {
	case isKey:
		for _, part := range secret.AWSParts() {
			if v := key.Part(part); !v.IsZero() {
				p.issue(s.Name, part, v, false)
			}
		}
	default:
		p.issue(s.Name, "", value, lasting)
	}
	return nil
}

// issue makes one placeholder: the same as in the project's other sessions.
func (p *Placed) issue(name, part string, v secret.Value, lasting bool) {
	now, earlier, err := p.ledger.make(p.project, name, part, v, lasting)
	if err != nil { // it is good for this session, and unknown to others
		p.Notices = append(p.Notices, err.Error())
	}
	p.hold(inject.Held{Name: name, Part: part, Placeholder: now, Earlier: earlier})
}

// fits tells why a secret cannot be bound so: an access key signs, and nothing else
// does.
func fits(s config.Secret, isKey bool) error {
	switch {
	case isKey && s.Sign == "":
		return fmt.Errorf("the secret %s is an access key, and is not there as this: bind it with sign: aws (%s:%d)", s.Name,
			s.Place.File, s.Place.Line)
	case !isKey && s.Sign != "":
		return fmt.Errorf("the secret %s signs requests (%s:%d) and is no access key: cloister secret set %s --kind aws",
			s.Name, s.Place.File, s.Place.Line, s.Name)
	}
	return nil
}

// resume takes the placeholders that a session has.
func (p *Placed) resume(s config.Secret, had []api.Placeholder) {
	for _, a := range had {
		if a.Name == s.Name {
			h := inject.Held{Name: a.Name, Part: a.Part, Placeholder: secret.Placeholder{Text: a.Text, Core: a.Core}}
			h.Earlier = p.ledger.earlier(p.project, h)
			p.hold(h)
		}
	}
	p.fill(s)
}

func (p *Placed) hold(h inject.Held) {
	p.Held = append(p.Held, h)
	p.Given = append(p.Given, api.Placeholder{Name: h.Name, Part: h.Part, Text: h.Placeholder.Text,
		Core: h.Placeholder.Core})
}

// place makes the files of logins whose secrets are all there.
func (p *Placed) place(list []*config.LoginService) {
	held := map[string]string{}
	for _, t := range p.Given {
		held[t.Name] = t.Text
	}
	for _, l := range list {
		if slices.ContainsFunc(l.Secrets, func(s config.Secret) bool { return held[s.Name] == "" }) {
			continue
		}
		for _, f := range l.Files {
			p.Files = append(p.Files, api.LoginFile{Path: f.Path, Text: fillLogin(f, held, time.Now())})
		}
	}
}

// fill puts the placeholder of a secret into its variables, where it is there.
func (p *Placed) fill(s config.Secret) {
	i := slices.IndexFunc(p.Given, func(a api.Placeholder) bool { return a.Name == s.Name })
	if i < 0 {
		return
	}
	if s.Sign != "" {
		p.fillKey(s)
		return
	}
	for _, name := range s.Variables() {
		p.Env[name] = p.Given[i].Text
	}
	if !strings.EqualFold(cmp.Or(s.Header, "Authorization"), "Authorization") || s.Query != "" || s.Body {
		return
	}
	for _, host := range s.Hosts {
		if strings.HasPrefix(host, "*") {
			continue // no program looks a wildcard up
		}
		for _, port := range append(slices.Clone(s.Ports), 443)[:max(1, len(s.Ports))] {
			at := host
			if port != 443 {
				at = fmt.Sprintf("%s:%d", host, port)
			}
			if !slices.ContainsFunc(p.Logins, func(l api.PasswordLogin) bool { return l.Host == at }) {
				p.Logins = append(p.Logins, api.PasswordLogin{Host: at, User: "x-access-token", Password: p.Given[i].Text})
			}
		}
	}
}

// fillKey puts the parts of an access key into their variables.
func (p *Placed) fillKey(s config.Secret) {
	names := s.Variables()
	for i, part := range secret.AWSParts() {
		for _, a := range p.Given {
			if a.Name == s.Name && a.Part == part && i < len(names) {
				p.Env[names[i]] = a.Text
			}
		}
	}
}

// fillLogin puts placeholders into a login's file.
func fillLogin(f config.LoginFile, held map[string]string, now time.Time) string {
	words := []string{"{now}", now.UTC().Format(time.RFC3339)}
	for name, text := range held {
		words = append(words, "{"+name+"}", text)
	}
	claims := strings.NewReplacer(words...).Replace(f.Claims)
	return strings.NewReplacer(append(words, "{jwt}", secret.UnsignedToken(claims))...).Replace(f.Text)
}
