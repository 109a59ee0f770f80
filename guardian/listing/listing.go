// Package listing is what anyone may see of the vault's secrets, and of those that are
// bound and not there.
//
// Promise: no value is in it. It reads the vault's list, and opens nothing.
//
// Most readers want [Secrets].
package listing

import (
	"fmt"
	"slices"
	"strings"

	"cloister/api"
	"cloister/config"
	"cloister/secret/inject"
	"cloister/secret/vault"
)

// Secrets are those that the configuration binds, and what became of them.
type Secrets struct {
	Bound []config.Secret
	Uses  *inject.Uses
}

// bindings are a secret's bindings for anyone.
func bindings(all []config.Secret, name string) []api.SecretBinding {
	out := []api.SecretBinding{}
	for _, s := range all {
		if s.Name != name {
			continue
		}
		b := api.SecretBinding{
			Hosts: s.Hosts, Ports: s.Ports, Methods: s.Methods, Paths: s.Paths, Format: s.Format, Use: string(s.Use),
			Env:   s.Variables(),
			Where: fmt.Sprintf("%s:%d", s.Place.File, s.Place.Line), Place: "header Authorization",
		}
		switch {
		case s.Header != "":
			b.Place = "header " + s.Header
		case s.Query != "":
			b.Place = "query " + s.Query
		case s.Body:
			b.Place = "body"
		case s.Sign != "":
			b.Place = "signature of " + strings.Join(s.Services, ", ")
			if len(s.Regions) > 0 {
				b.Place += " in " + strings.Join(s.Regions, ", ")
			}
		}
		if b.Use == "" {
			b.Use = string(config.UseAllow)
		}
		out = append(out, b)
	}
	return out
}

// All are those of the vault, and those that are bound and not there.
func (l Secrets) All(v *vault.Vault) []api.Secret {
	out := []api.Secret{}
	for _, item := range v.List() {
		out = append(out, l.One(item))
	}
	for _, s := range l.Bound {
		if !slices.ContainsFunc(out, func(o api.Secret) bool { return o.Name == s.Name }) {
			out = append(out, api.Secret{Name: s.Name, Source: api.SecretMissing, Bindings: bindings(l.Bound, s.Name)})
		}
	}
	return out
}

// One is what anyone sees of a secret.
func (l Secrets) One(i vault.Item) api.Secret {
	s := api.Secret{Name: i.Name, Source: api.SecretStored, SetAt: &i.SetAt, Bindings: bindings(l.Bound, i.Name)}
	if len(i.Command) > 0 {
		s.Source, s.Command, s.Refresh = api.SecretCommand, i.Command, i.Refresh.String()
	}
	s.Kind = string(i.Kind)
	if i.Login != "" {
		s.Source, s.Login = api.SecretLogin, i.Login
	}
	if i.Problem != nil {
		s.Problem = i.Problem.Error()
	}
	n := l.Uses.Of(i.Name)
	if s.Uses, s.Refused = n.Uses, n.Refused; !n.Last.IsZero() {
		s.LastUsed = &n.Last
	}
	return s
}
