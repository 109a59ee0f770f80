package policyset

import (
	"errors"
	"fmt"
	"slices"

	"cloister/config"
	"cloister/internal/authority"
	"cloister/internal/source"
	"cloister/policy"
	"cloister/secret"
	"cloister/secret/vault"
)

// bindings reads where secrets may go.
func bindings(list []config.Secret, allow []config.Rule) ([]*secret.Binding, error) {
	var out []*secret.Binding
	var errs []error
	for _, s := range list {
		err := vault.CheckName(s.Name)
		var b *secret.Binding
		if err == nil {
			b, err = secret.Bind(secret.Words{
				Name: s.Name, Hosts: s.Hosts, Ports: s.Ports, Methods: s.Methods, Paths: s.Paths, Header: s.Header,
				Format: s.Format,
				Query:  s.Query, Body: s.Body, Use: string(s.Use), Sign: string(s.Sign), Services: s.Services, Regions: s.Regions,
				Origin: source.Position{File: s.Place.File, Line: s.Place.Line}.String(),
			})
		}
		if err != nil {
			errs = append(errs, &source.Problem{Position: s.Place, Msg: "secrets: " + err.Error()})
			continue
		}
		out = append(out, b)
	}
	return out, errors.Join(append(errs, tunnelled(allow, out)...)...)
}

// tunnelled are the bindings to hosts whose connections are never opened: nothing
// could be swapped there.
func tunnelled(allow []config.Rule, list []*secret.Binding) []error {
	var errs []error
	for _, r := range allow {
		p, err := authority.ParsePattern(r.Domain)
		if r.TLS != config.TLSTunnel || err != nil {
			continue
		}
		for _, b := range list {
			if slices.ContainsFunc(b.Hosts, func(h authority.Pattern) bool {
				return p.Match(h.Base()) || h.Match(p.Base()) || h == p
			}) {
				errs = append(errs, &source.Problem{
					Position: r.Place, Hint: "take away one of the two",
					Msg: fmt.Sprintf("tls: tunnel for %s, to which the secret %s is bound (%s): a connection that is never opened "+
						"gets none", r.Domain, b.Name, b.Origin),
				})
			}
		}
	}
	return errs
}

// ByName are the bindings by the names of their secrets.
func ByName(list []*secret.Binding) map[string][]*secret.Binding {
	out := map[string][]*secret.Binding{}
	for _, b := range list {
		out[b.Name] = append(out[b.Name], b)
	}
	return out
}

// Use is what policy is asked about a use of a secret at a place of a request.
func Use(name, place string, b *secret.Binding) *policy.Use {
	out := &policy.Use{
		Name: name, Place: place, Rule: "secret " + name, Origin: source.Position{Source: b.Origin},
		Bound: policy.Allow, Reason: "bound to " + b.To() + ", " + b.Place(),
	}
	switch config.Use(b.Use) {
	case config.UseDeny:
		out.Bound, out.Reason = policy.Deny, "use: deny at "+b.Origin
	case config.UseAsk:
		out.Bound, out.Reason = policy.Ask, "use: ask at "+b.Origin
	case config.UseAllow:
	}
	return out
}

// loginSecrets are the bindings of logins; a secret that a person binds in their
// own words has those alone.
func loginSecrets(names []string, own []config.Secret) ([]config.Secret, []*config.LoginService, error) {
	var out []config.Secret
	var list []*config.LoginService
	bound := map[string]bool{}
	for _, s := range own {
		bound[s.Name] = true
	}
	for _, name := range names {
		l, err := config.LoadLogin(name)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, l)
		for _, s := range l.Secrets {
			if !bound[s.Name] {
				out = append(out, s)
			}
		}
	}
	return out, list, nil
}
