package guardian

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"cloister/api"
	"cloister/audit"
	"cloister/config"
	"cloister/policy"
	"cloister/secret"
	"cloister/secret/oauth"
)

// asker asks services from the host: where proxy.hosts pins a name it dials that,
// and it trusts what egress trusts.
func (g *guardian) asker() *oauth.Client {
	loaded := g.policies.Current()
	return oauth.NewClient(loaded.Roots(), loaded.Config().Proxy.Hosts)
}

// renew makes the value of a login as of now from what the vault keeps of it.
func (g *guardian) renew(ctx context.Context, name string, kept secret.Value) (value, next secret.Value, err error) {
	t, err := oauth.Open(kept)
	if err != nil {
		return value, next, err
	}
	c := g.asker()
	if !c.Old(t) {
		return t.Access, next, nil
	}
	l, err := config.LoadLogin(name)
	if err != nil {
		return value, next, err
	}
	// Who asked may go: what the service gave must be kept.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := g.records.Append(ctx, audit.Event{
		Kind: audit.SecretUse, Action: "renew", Resource: l.Secrets[0].Name, Verdict: policy.Allow.String(),
		Reason: "the login " + name + " ends", Policy: g.policies.Current().Snapshot().Digest(),
	}); err != nil {
		return value, next, api.Unrecorded("renew the login "+name, err)
	}
	young, err := c.Renew(ctx, l, t)
	if err != nil {
		g.log.Warn("a login could not be renewed", "login", name, "error", err)
		if !c.Over(t) {
			return t.Access, next, nil
		}
		return value, next, err
	}
	return young.Access, young.Seal(), nil
}

// postLogin begins a login.
func (g *guardian) postLogin(_ http.ResponseWriter, r *http.Request) (any, error) {
	l, err := config.LoadLogin(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	g.refresh(r.Context()) // proxy.hosts and upstream_ca of now
	if _, err := g.openVault(); err != nil {
		return nil, err
	}
	id, f, err := g.logins.Begin(r.Context(), g.asker(), l)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	return api.LoginBegun{ID: id, Title: l.Title, Secret: l.Secrets[0].Name, URL: f.URL, Code: f.Code, Expires: f.Expires},
		nil
}

// postLoginFinish waits until the person has agreed, and keeps what came.
func (g *guardian) postLoginFinish(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.LoginFinish](r)
	if err != nil {
		return nil, err
	}
	l, err := config.LoadLogin(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if req.Answer != "" { // what a person pasted; the request that waits takes it
		if err := g.logins.Answer(req.ID, l, req.Answer); err != nil {
			return nil, api.BadRequest("log in: %v", err)
		}
		return api.Secret{Name: l.Secrets[0].Name}, nil
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	t, err := g.logins.Finish(ctx, req.ID, l)
	if errors.Is(err, oauth.ErrUnknown) {
		return nil, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound, Message: "log in: " + err.Error()}
	}
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	return g.keepLogin(r, l, t)
}

// keepLogin records a login, and puts it into the vault with its parts.
func (g *guardian) keepLogin(r *http.Request, l *config.LoginService, t oauth.Tokens) (any, error) {
	v, err := g.openVault()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, p := range l.Parts {
		if t.Parts[p.Secret].IsZero() {
			return nil, fmt.Errorf("log in: %s gave no %s", l.Title, p.Secret)
		}
		if err := g.recordVault(r, "set", p.Secret, "of a login: "+l.Name); err != nil {
			return nil, err
		}
		if err := v.Set(p.Secret, "", t.Parts[p.Secret], now); err != nil {
			return nil, err
		}
		g.learn(p.Secret, t.Parts[p.Secret])
	}
	if err := g.recordVault(r, "set", l.Secrets[0].Name, "a login: "+l.Name); err != nil {
		return nil, err
	}
	if err := v.SetLogin(l.Secrets[0].Name, l.Name, t.Seal(), now); err != nil {
		return nil, err
	}
	g.learn(l.Secrets[0].Name, t.Access)
	item, err := v.Find(l.Secrets[0].Name)
	return g.shown().One(item), err
}
