package guardian

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/config"
	"cloister/egress"
	"cloister/guardian/placeholders"
	"cloister/guardian/ward"
	"cloister/internal/termsafe"
	"cloister/policy"
	"cloister/rulebook"
	"cloister/secret"
	"cloister/secret/vault"
	"cloister/swap"
)

// place makes what a new session gets in place of its secrets, or takes what one has
// that is taken back. Who binds no secret pays nothing. The command of a secret may
// take its time: no lock is held.
func (g *guardian) place(ctx context.Context, in *rulebook.Scope, resume *api.Resume) placeholders.Placed {
	if len(in.Bindings) == 0 {
		return placeholders.Placed{}
	}
	v, err := g.openVault()
	if err != nil {
		return placeholders.Placed{Notices: []string{"no secret is there: " + err.Error()}}
	}
	return placeholders.Place(ctx, v, in, resume)
}

// Value is a secret as of now. The disk is not looked at for each request.
func (l *live) Value(ctx context.Context, name string) (secret.Value, uint64, error) {
	v, err := l.g.vault.get(l.g.o, l.g.renew)
	if err != nil {
		return secret.Value{}, 0, err
	}
	return v.Get(ctx, name)
}

// secretEvent is the frame of the record of one use.
func (l *live) secretEvent(u swap.Use) audit.Event {
	e := l.Event()
	e.Kind, e.Resource = audit.SecretUse, u.Name
	e.Host, e.Port, e.Method, e.Path = u.Authority.Host(), u.Authority.Port(), u.Method, u.Path
	return e
}

// AllowUse decides a use of a secret, and records it. Mode shadow and record do not
// soften it: what went out cannot be taken back.
func (l *live) AllowUse(ctx context.Context, u swap.Use) egress.Verdict {
	v := l.judgeSecret(ctx, u)
	out := egress.Verdict{Allow: v.Effect == policy.Allow, Effect: v.Effect.String(), Rule: v.Rule, Place: v.Origin.Place(), Reason: v.Reason, Hints: v.Hints}
	e := l.secretEvent(u)
	e.Action, e.Verdict, e.Rule = "swap", out.Effect, v.RuleAt()
	e.Reason = v.Reason + "; " + u.Place
	if v.Diagnostic != "" {
		e.Reason += "; " + v.Diagnostic
	}
	if err := l.Records.Append(ctx, e); err != nil {
		return egress.Verdict{Effect: "deny", Rule: out.Rule, Reason: "this could not be recorded, so it may not happen: " + err.Error()}
	}
	l.g.uses.Add(u.Name, out.Allow)
	return out
}

// judgeSecret is policy's word or, where that is ask, a person's.
func (l *live) judgeSecret(ctx context.Context, u swap.Use) policy.Verdict {
	snapshot := l.Snapshot.Load()
	v := ward.Judge(snapshot, policy.Request{
		Action: policy.SecretUse, Authority: u.Authority, Session: l.Info.Name, Project: l.Info.Project, Agent: l.Info.Agent, Use: rulebook.Use(u.Name, u.Place, u.Binding),
		HTTP: policy.HTTP{Method: u.Method, Path: u.HTTP.Path, BadPath: u.HTTP.BadPath, Query: u.HTTP.Query, Header: u.HTTP.Header},
	})
	if v.Effect != policy.Ask {
		return v
	}
	told := func(effect policy.Effect, reason string) policy.Verdict {
		v.Effect, v.Reason = effect, reason
		return v
	}
	subject := u.Name + " " + u.Method + " " + u.Authority.String()
	if d, ok := l.Remembered(config.DecisionSecret, subject); ok {
		if d.Answer == config.AnsweredDeny {
			return told(policy.Deny, "a person denied it: approval "+d.ID)
		}
		return told(policy.Allow, "a person allowed it: approval "+d.ID)
	}
	ask := &approval.Ask{
		Kind: approval.Secret, Subject: subject, Title: "use the secret " + u.Name + ": " + u.Method + " " + u.Authority.String(),
		Reason: v.Reason, Rule: v.RuleAt(), Policy: snapshot.Digest(), Marks: termsafe.Marks(subject),
		Details: []approval.Detail{{Label: "request", Text: u.Method + " " + u.Authority.String() + termsafe.Clip(u.Path, 1024)}, {Label: "place", Text: u.Place}},
	}
	a := l.Queue.Ask(ctx, l.InName(ask))
	switch a.Outcome {
	case approval.Allowed:
		l.Tally.Asked()
		return told(policy.Allow, "a person allowed it: "+ward.Word(a))
	case approval.Denied:
		l.Tally.Asked()
		return told(policy.Deny, "a person denied it: "+ward.Word(a))
	default:
		return told(policy.Ask, ward.End(a.Outcome)+": "+v.Reason)
	}
}

// RecordUse records a placeholder that was seen and not swapped.
func (l *live) RecordUse(ctx context.Context, u swap.Use, refused bool, why string) error {
	e := l.secretEvent(u)
	e.Action, e.Verdict, e.Rule = "seen", policy.Allow.String(), "secret "+u.Name
	if refused {
		e.Action, e.Verdict = "refuse", policy.Deny.String()
		l.g.uses.Add(u.Name, false)
	}
	e.Reason = why + "; " + u.Place
	if err := l.Records.Append(context.WithoutCancel(ctx), e); err != nil {
		return fmt.Errorf("this could not be recorded: %w", err)
	}
	return nil
}

// reads says whether connections to a destination are opened for the sake of the
// session's secrets: where one is bound, and wherever TLS is likely to be HTTPS,
// since a placeholder that goes somewhere else is to be seen. A person's tunnel
// stays one, and a session that was taken back has no authority to open with.
func (l *live) reads(q egress.Query, v policy.Verdict) bool {
	s := l.secrets.Load()
	if s == nil || q.Kind == egress.Resolve {
		return false
	}
	return s.Bound(q.Authority) || q.Authority.Port() == 443 && l.ca != nil && !v.Tunnel
}

// opens says which TLS is opened on other ports, so that a placeholder which goes
// there is seen: what is HTTP by its own word or, at a host that a secret is bound
// to, whatever says nothing else.
func (l *live) opens(q egress.Query, v policy.Verdict) egress.Opening {
	switch s := l.secrets.Load(); {
	case s == nil || l.ca == nil || v.Tunnel:
		return egress.OpenNothing
	case s.BoundHost(q.Authority):
		return egress.OpenSilent
	}
	return egress.OpenOffered
}

// misnamed says why a name may not be looked up or connected to: it has a
// placeholder in it, and who resolves it would be told.
func (l *live) misnamed(ctx context.Context, q egress.Query) (v policy.Verdict, refused bool) {
	s := l.secrets.Load()
	// A request by the proxy is the first that is heard of its name.
	if s == nil || q.Kind != egress.Resolve && q.Kind != egress.Connect && (q.Kind != egress.Request || q.Via != egress.ViaHTTP) {
		return v, false
	}
	name, why := s.Named(ctx, q.Authority)
	return policy.Verdict{Effect: policy.Deny, Rule: "secret " + name, Reason: why}, name != ""
}

// shownBindings are a secret's bindings for anybody.
func shownBindings(all []config.Secret, name string) []api.SecretBinding {
	out := []api.SecretBinding{}
	for _, s := range all {
		if s.Name != name {
			continue
		}
		b := api.SecretBinding{
			Hosts: s.Hosts, Ports: s.Ports, Methods: s.Methods, Paths: s.Paths, Format: s.Format, Use: string(s.Use), Env: s.Variables(),
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

// allSecrets are those of the vault, and those that are bound and not there.
func (g *guardian) allSecrets(v *vault.Vault) []api.Secret {
	bound := g.policies.Current().Secrets()
	out := []api.Secret{}
	for _, item := range v.List() {
		out = append(out, g.shownSecret(bound, item))
	}
	for _, s := range bound {
		if !slices.ContainsFunc(out, func(o api.Secret) bool { return o.Name == s.Name }) {
			out = append(out, api.Secret{Name: s.Name, Source: api.SecretMissing, Bindings: shownBindings(bound, s.Name)})
		}
	}
	return out
}

// shownSecret is what anybody sees of a secret.
func (g *guardian) shownSecret(bound []config.Secret, i vault.Item) api.Secret {
	s := api.Secret{Name: i.Name, Source: api.SecretStored, SetAt: &i.SetAt, Bindings: shownBindings(bound, i.Name)}
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
	n := g.uses.Of(i.Name)
	if s.Uses, s.Refused = n.Uses, n.Refused; !n.Last.IsZero() {
		s.LastUsed = &n.Last
	}
	return s
}

func (g *guardian) getSecret(_ http.ResponseWriter, r *http.Request) (any, error) {
	v, err := g.openVault()
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	all := g.allSecrets(v)
	if i := slices.IndexFunc(all, func(s api.Secret) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	_, err = v.Find(name)
	return nil, err
}
