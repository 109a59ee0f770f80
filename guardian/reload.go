package guardian

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"cloister/api"
	"cloister/audit"
	"cloister/config"
	"cloister/guardian/sessionctx"
	"cloister/policy"
	"cloister/policyset"
)

// reload reads the configuration, and puts it in force for every session when
// all of it is valid and recorded. On any error what ruled before rules on.
func (g *guardian) reload(ctx context.Context) (api.Reload, error) {
	answer, err := g.reloadAll(ctx)
	if err == nil {
		g.review()
	}
	return answer, err
}

// beside names what changed that the policy's digest does not hold. Where a line stands is
// no part of its JSON: one that moved is no change.
func beside(before, next *config.Config) []string {
	var out []string
	for _, part := range []struct {
		what string
		a, b any
	}{
		{"where secrets may go", before.Secrets, next.Secrets},
		{"the logins that cloisters get", before.Logins, next.Logins},
		{"which commands may run on the host", before.Hostexec, next.Hostexec},
	} {
		was, err := json.Marshal(part.a)
		is, also := json.Marshal(part.b)
		if err != nil || also != nil || string(was) != string(is) {
			out = append(out, part.what+": changed")
		}
	}
	return out
}

// refresh reloads when the files on disk are not those that were read last. What
// is wrong with them is kept for whoever opens a session: the last good policy
// rules on.
func (g *guardian) refresh(ctx context.Context) {
	if !g.policies.Stale() {
		return
	}
	if _, err := g.reload(ctx); err != nil {
		g.log.Warn("the configuration has changed and cannot be loaded", "error", err)
	}
}

func (g *guardian) reloadAll(ctx context.Context) (api.Reload, error) {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	before := g.policies.Current()
	answer := api.Reload{Previous: before.Snapshot().Digest()}

	g.policies.Look()
	next, err := policyset.Load(g.policies.Dir, g.policies.Home, g.policies.Host)
	var changes []change
	if err == nil {
		changes, err = g.plan(next)
	}
	if err != nil {
		return answer, g.keep(ctx, before, err)
	}
	answer.Digest, answer.Notices = next.Snapshot().Digest(), next.Notices()
	if was := before.Config(); was != nil { // at the guardian's start there is none
		answer.Notices = append(answer.Notices, beside(was, next.Config())...)
	}
	answer.Changed = answer.Digest != answer.Previous
	return answer, g.enforce(ctx, next, changes)
}

// install puts next in force for every session. The lock is held.
func (g *guardian) install(ctx context.Context, next *policyset.Set) error {
	changes, err := g.plan(next)
	if err != nil {
		return err
	}
	return g.enforce(ctx, next, changes)
}

// enforce records a policy, then lets it rule. An unrecorded one does not.
func (g *guardian) enforce(ctx context.Context, next *policyset.Set, changes []change) error {
	if err := g.recordLoad(ctx, next, changes); err != nil {
		return err
	}
	g.policies.Swap(next)
	var checks sync.WaitGroup
	for _, c := range changes {
		c.live.Snapshot.Store(c.next)
		c.live.Scope.Store(c.scope)
		c.live.limit(c.scope.Quota)
		if s := c.live.secrets.Load(); s != nil {
			s.Rebind(policyset.ByName(c.scope.Bindings))
		}
		checks.Go(func() { c.live.recheck(ctx) })
	}
	checks.Wait()
	g.log.Info("policy loaded", "digest", next.Snapshot().Digest(), "notices", len(next.Notices()))
	g.bus.Publish(api.EventPolicy, api.PolicyDigest{Digest: next.Snapshot().Digest()})
	return nil
}

// change is one session's next snapshot, with what else it is granted.
type change struct {
	live  *live
	next  *policy.Snapshot
	scope *policyset.Scope
}

// plan derives every session's snapshot under next. One that cannot be made
// fails the whole: half a policy is none.
func (g *guardian) plan(next *policyset.Set) ([]change, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var changes []change
	for _, l := range g.live {
		s, err := g.policies.Session(next, l.Info.Project, l.rules)
		if err != nil {
			return nil, err
		}
		in, err := next.Scope(l.rules.Projects)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change{live: l, next: s, scope: in})
	}
	return changes, nil
}

// keep says loudly that the files on disk are not in force.
func (g *guardian) keep(ctx context.Context, before *policyset.Set, why error) error {
	g.policies.Fail(why)
	digest := before.Snapshot().Digest()
	if digest == "" {
		g.log.Error("the policy cannot be loaded", "error", why)
	} else {
		g.log.Error("the policy on disk cannot be loaded: the last good one stays in force", "digest", digest, "error", why)
	}
	err := g.records.Append(ctx, audit.Event{
		Kind:     audit.PolicyLoad,
		Action:   "load",
		Resource: g.policies.Dir,
		Verdict:  policy.Deny.String(),
		Reason:   strings.ReplaceAll(why.Error(), "\n", "; "),
		Policy:   digest,
	})
	return errors.Join(why, err)
}

func (g *guardian) recordLoad(ctx context.Context, next *policyset.Set, changes []change) error {
	if err := g.records.Append(ctx, audit.Event{
		Kind:     audit.PolicyLoad,
		Action:   "load",
		Resource: g.policies.Dir,
		Verdict:  policy.Allow.String(),
		Reason:   strings.Join(next.Notices(), "; "),
		Policy:   next.Snapshot().Digest(),
	}); err != nil {
		return err
	}
	for _, c := range changes {
		e := sessionctx.Frame(c.live.Info, c.next.Digest())
		e.Kind, e.Action, e.Verdict = audit.PolicyLoad, "load", policy.Allow.String()
		if err := g.records.Append(ctx, e); err != nil {
			return err
		}
	}
	return nil
}
