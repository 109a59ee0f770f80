package guardian

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"cloister/api"
	"cloister/approval"
	"cloister/audit"
	"cloister/config"
	"cloister/egress/verdict"
	"cloister/guardian/court"
	"cloister/guardian/listing"
	"cloister/guardian/placeholders"
	"cloister/guardian/sessionctx"
	"cloister/hostexec"
	"cloister/internal/tenants"
	"cloister/policy"
	"cloister/policyset"
	"cloister/secret"
	"cloister/secret/inject"
)

// place makes what a new session gets in place of its secrets, or takes what one has
// that is taken back. Who binds no secret pays nothing. The command of a secret may
// take its time: no lock is held.
func (g *guardian) place(ctx context.Context, project string, in *policyset.Scope,
	resume *api.Resume) placeholders.Placed {
	if len(in.Bindings) == 0 {
		return placeholders.Placed{}
	}
	if _, err := g.openVault(); err != nil && resume == nil {
		return placeholders.Placed{Notices: []string{"no secret is there: " + err.Error()}}
	}
	ledger, err := g.vault.issued(g.o)
	if err != nil {
		return placeholders.Placed{Notices: []string{"no secret is there: " + err.Error()}}
	}
	return placeholders.Place(ctx, g, ledger, project, in, resume)
}

// Get is a secret as of now, which no answer brings to a program from here on. The disk
// is not looked at for each request.
func (g *guardian) Get(ctx context.Context, name string) (secret.Value, error) {
	v, err := g.vault.get(g.o, g.renew)
	if err != nil {
		return secret.Value{}, err
	}
	value, _, err := v.Get(ctx, name)
	if err == nil {
		g.learn(name, value)
	}
	return value, err
}

// Value is a secret as of now, which the session's next guardian will know too.
func (l *live) Value(ctx context.Context, name string) (secret.Value, error) {
	value, err := l.g.Get(ctx, name)
	if err == nil {
		err = l.reseal()
	}
	return value, err
}

// redacted is what must not reach the session's programs; nil where nothing is bound.
func (l *live) redacted() func() *secret.Scrubber {
	if s := l.secrets.Load(); s != nil {
		return s.Scrubber
	}
	return nil
}

// secretEvent is the frame of the record of one use.
func (l *live) secretEvent(u inject.Use) audit.Event {
	e := l.Event()
	e.Kind, e.Resource = audit.SecretUse, u.Name
	e.Host, e.Port, e.Method, e.Path = u.Authority.Host(), u.Authority.Port(), u.Method, u.Path
	return e
}

// AllowUse decides a use of a secret. Mode shadow and record do not soften it: what went
// out cannot be taken back.
func (l *live) AllowUse(ctx context.Context, u inject.Use) verdict.Answer {
	subject := u.Name + " " + u.Method + " " + u.Authority.String()
	return answered(court.Decide(ctx, &l.Context, court.Case{
		Policy: func() court.Ruling {
			snapshot := l.Snapshot.Load()
			return court.Ruling{Digest: snapshot.Digest(), Verdict: court.Judge(snapshot, policy.Request{
				Action: policy.SecretUse, Authority: u.Authority, Session: l.Info.Name, Project: l.Info.Project,
				Agent: l.Info.Agent,
				Use:   policyset.Use(u.Name, u.Place, u.Binding), HTTP: *u.HTTP,
			})}
		},
		Remembered: func(v policy.Verdict) (policy.Verdict, bool) {
			if v.Effect != policy.Ask {
				return v, false
			}
			d, ok := l.Remembered(config.DecisionSecret, subject)
			switch {
			case !ok:
			case d.Answer == config.AnsweredDeny:
				v.Effect, v.Reason = policy.Deny, "a person denied it: approval "+d.ID
			default:
				v.Effect, v.Reason = policy.Allow, "a person allowed it: approval "+d.ID
			}
			return v, ok
		},
		Question: func(policy.Verdict) (approval.Ask, error) { return askSecret(u, subject) },
		Event: func(r court.Ruling) (audit.Event, bool) {
			e := l.secretEvent(u)
			e.Action, e.Verdict, e.Rule = "swap", r.Effect.String(), r.RuleAt()
			e.Reason = r.FullReason() + "; " + u.Place
			if r.Diagnostic != "" {
				e.Reason += "; " + r.Diagnostic
			}
			return e, true
		},
		Count: func(r court.Ruling) {
			if l.g.uses.Add(u.Name, r.Allowed()); r.Allowed() {
				l.Tally.Used(u.Name, u.Authority.Host())
			}
		},
	}))
}

// askSecret is what a person is asked about one use.
func askSecret(u inject.Use, subject string) (approval.Ask, error) {
	shown, err := sessionctx.ShownRequest(u.Method, u.Authority.String()+u.Path, u.HTTP)
	if err != nil {
		return approval.Ask{}, err
	}
	a := approval.Ask{
		Wide: "the secret " + u.Name + " in every " + u.Method + " to " + u.Authority.String() +
			", with any path, query and body that its binding lets through",
		Kind: approval.Secret, Subject: subject,
		Title:   "use the secret " + u.Name + ": " + u.Method + " " + u.Authority.String(),
		Details: append(shown, approval.Detail{Label: "place", Text: u.Place}),
	}
	a.Digest = sessionctx.DigestShown(&a)
	return a, court.Fits("what is to be looked at has", sessionctx.Size(a.Details), 2*hostexec.MaxShown)
}

// RecordUse records a placeholder that was seen and not swapped.
func (l *live) RecordUse(ctx context.Context, u inject.Use, refused bool, why string) error {
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

// reads reports whether requests to a destination are read for the sake of a secret that
// is bound to it, whatever a rule says of TLS.
func (l *live) reads(q verdict.Query) bool {
	s := l.secrets.Load()
	return s != nil && q.Kind != verdict.Resolve && s.Bound(q.Authority)
}

// opens says what becomes of TLS where no rule reads requests. It is inspected unless
// a rule says tls: tunnel; nothing but HTTP passes where many tenants share the host,
// which only requests tell apart, or where a secret is bound to it at another port. An
// address has no name that a certificate could be for: it is passed on, but for a
// session with placeholders, which are to be seen wherever they go.
func (l *live) opens(q verdict.Query, v policy.Verdict) verdict.Opening {
	s, host := l.secrets.Load(), q.Authority.Host()
	_, literal := q.Authority.Addr()
	switch {
	case s != nil && s.BoundHost(q.Authority), !literal && tenants.Share(host):
		return verdict.OpenHTTP
	case v.Tunnel, literal && s == nil:
		return verdict.OpenNothing
	}
	return verdict.OpenAny
}

// misnamed says why a name may not be looked up or connected to: it has a
// placeholder in it, and its resolver would learn it.
func (l *live) misnamed(ctx context.Context, q verdict.Query) (v policy.Verdict, refused bool) {
	s := l.secrets.Load()
	// A request by the proxy is the first to name it.
	if s == nil || q.Kind != verdict.Resolve && q.Kind != verdict.Connect &&
		(q.Kind != verdict.Request || q.Via != verdict.ViaHTTP) {
		return v, false
	}
	name, why := s.Named(ctx, q.Authority)
	return policy.Verdict{Effect: policy.Deny, Rule: "secret " + name, Reason: why}, name != ""
}

// shown lists secrets as anyone may see them.
func (g *guardian) shown() listing.Secrets {
	return listing.Secrets{Bound: g.policies.Current().Secrets(), Uses: &g.uses}
}

func (g *guardian) getSecret(_ http.ResponseWriter, r *http.Request) (any, error) {
	v, err := g.openVault()
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	all := g.shown().All(v)
	if i := slices.IndexFunc(all, func(s api.Secret) bool { return s.Name == name }); i >= 0 {
		return all[i], nil
	}
	_, err = v.Find(name)
	return nil, err
}
