package guardian

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/livefiles"
	"cloister/policy"
	"cloister/policyset"
)

// reload reads the configuration, and puts it in force for every session when
// all of it is valid and recorded. On any error what ruled before rules on. A session whose
// own rules do not go together with it is allowed nothing, until they do.
func (g *guardian) reload(ctx context.Context) (api.Reload, error) {
	answer, err := g.reloadAll(ctx)
	if err == nil {
		g.review()
	}
	return answer, err
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
		answer.Notices = append(answer.Notices, policyset.Beside(was, next.Config())...)
	}
	answer.Changed = answer.Digest != answer.Previous
	notices, err := g.enforce(ctx, next, changes)
	answer.Notices = append(answer.Notices, notices...)
	return answer, err
}

// install puts next in force for every session. The lock is held.
func (g *guardian) install(ctx context.Context, next *policyset.Set) error {
	changes, err := g.plan(next)
	if err != nil {
		return err
	}
	_, err = g.enforce(ctx, next, changes)
	return err
}

// enforce records a policy, then lets it rule. An unrecorded one does not. It says which sessions
// are allowed nothing, or keep their statements about files and programs.
func (g *guardian) enforce(ctx context.Context, next *policyset.Set, changes []change) ([]string, error) {
	if err := g.recordLoad(ctx, next, changes); err != nil {
		return nil, err
	}
	files, notices := livefiles.Of(next.Input().Cedar), make([]string, len(changes))
	g.policies.Swap(next)
	var checks sync.WaitGroup
	for i, c := range changes {
		c.rule()
		checks.Go(func() { c.live.recheck(ctx) })
		checks.Go(func() {
			if c.clash == nil {
				notices[i] = c.live.refile(files)
			} else if c.live.linked() {
				notices[i] = livefiles.Closed(&c.live.Context, c.live.send, c.clash)
			}
		})
	}
	checks.Wait()
	g.log.Info("policy loaded", "digest", next.Snapshot().Digest(), "notices", len(next.Notices()))
	g.bus.Publish(api.EventPolicy, api.PolicyDigest{Digest: next.Snapshot().Digest()})
	return slices.DeleteFunc(notices, func(text string) bool { return text == "" }), nil
}

// refile has a running session's shim put changed statements about files and programs in force.
func (l *live) refile(files []api.CedarFile) string {
	if !l.linked() {
		return ""
	}
	return l.files.Ask(l.ctx, &l.Context, l.send, files)
}

// change is one session's next snapshot, with what else it is granted; clash is why that forbids all.
type change struct {
	live  *live
	next  *policy.Snapshot
	scope *policyset.Scope
	clash error
}

// rule puts it in force.
func (c change) rule() {
	c.live.Snapshot.Store(c.next)
	c.live.Scope.Store(c.scope)
	c.live.limit(c.scope.Quota)
	if s := c.live.secrets.Load(); s != nil {
		s.Rebind(policyset.ByName(c.scope.Bindings))
	}
}

// plan derives every session's snapshot under next. One that cannot be made
// fails the whole, since half a policy is none; unless it comes of what the session itself has,
// which is allowed nothing then: an older policy would be a way around the new one.
func (g *guardian) plan(next *policyset.Set) ([]change, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var changes []change
	for _, l := range g.live {
		s, in, clash, err := g.policies.Next(next, l.Info.Project, l.rules)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change{live: l, next: s, scope: in, clash: clash})
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
		if err := g.recordSessionPolicy(ctx, c.live, c.next, c.clash); err != nil {
			return err
		}
	}
	return nil
}
