package policyset

import (
	"encoding/json"
	"fmt"
	"sync"

	"cloister/api"
	"cloister/config"
	"cloister/host/resolve"
	"cloister/policy"
)

// A Holder holds what rules now.
type Holder struct {
	Dir, Home string // of the configuration; what ~ stands for in it
	Host      resolve.Now

	mu      sync.RWMutex
	seen    string // the files on disk when they were read last
	now     *Set   // never nil once the guardian serves
	failed  string // why the files on disk are not in force
	derived map[string]*policy.Snapshot
	order   []string // keys of derived, oldest first
}

func NewHolder(dir, home string, host resolve.Now) *Holder {
	return &Holder{Dir: dir, Home: home, Host: host, now: &Set{}, derived: map[string]*policy.Snapshot{}}
}

func (p *Holder) Current() *Set {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.now
}

// With reads the files on disk, with others instead of some of them.
func (p *Holder) With(instead map[string][]byte) (*Set, error) {
	return LoadWith(p.Dir, p.Home, p.Host, instead)
}

// Notify is what the configuration in force says about who is notified of questions.
func (p *Holder) Notify() config.Notify {
	if c := p.Current().Config(); c != nil {
		return c.Notify
	}
	return config.Notify{} // at the guardian's start
}

func (p *Holder) Failure() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.failed
}

// Look remembers how the files on disk look, before they are read: a change
// while they are read is seen the next time.
func (p *Holder) Look() {
	now := config.Fingerprint(p.Dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = now
}

// Stale reports whether the files on disk have changed since they were read.
func (p *Holder) Stale() bool {
	now := config.Fingerprint(p.Dir)
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.seen != now
}

// Swap puts l in force.
func (p *Holder) Swap(l *Set) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now, p.failed = l, ""
}

// Fail remembers that the files on disk are not in force.
func (p *Holder) Fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = err.Error()
}

// Session is the snapshot for one session of a project under l. Compiling 1,000
// rules takes milliseconds, so the same words under the same policy compile once.
func (p *Holder) Session(l *Set, project string, w SessionRules) (*policy.Snapshot, error) {
	remembered := l.remembered(project)
	if w.empty() && len(remembered) == 0 {
		return l.base, nil
	}
	text, err := json.Marshal(struct {
		SessionRules
		Remembered []policy.Rule
	}{w, remembered})
	if err != nil {
		return nil, fmt.Errorf("session policy: %w", err)
	}
	key := l.base.Digest() + " " + string(text)
	p.mu.RLock()
	s := p.derived[key]
	p.mu.RUnlock()
	if s != nil {
		return s, nil
	}
	if s, err = derive(l, w, remembered); err != nil {
		return nil, err
	}
	p.remember(key, s)
	return s, nil
}

// closed forbids all, beside what rules for everybody.
const closed = "forbid (principal, action, resource);"

// Next is what a running session has under l. Where the session's own rules do not go together with it, such as a
// second statement of a name, and what there is without them does, clash is why: nothing is allowed then.
func (p *Holder) Next(l *Set, project string, w SessionRules) (s *policy.Snapshot, in *Scope, clash, err error) {
	if s, err = p.Session(l, project, w); err == nil {
		in, err = l.Scope(w.Projects)
	}
	if err == nil {
		return s, in, nil, nil
	}
	shut := SessionRules{Cedar: []api.CedarFile{{Name: "the session's own rules clash", Text: closed}}}
	s, bare := p.Session(l, project, shut)
	in, alone := l.Scope(nil)
	if bare != nil || alone != nil {
		return nil, nil, nil, err
	}
	return s, in, err, nil
}

func (p *Holder) remember(key string, s *policy.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.derived[key] == nil {
		p.order = append(p.order, key)
	}
	p.derived[key] = s
	for len(p.order) > cached {
		delete(p.derived, p.order[0])
		p.order = p.order[1:]
	}
}

// Upcoming is what the next session would have: that what the files on disk say now
// is not in force yet is reported, as is that it cannot be.
func (p *Holder) Upcoming() (*Set, []string) {
	now := p.Current()
	if !p.Stale() {
		return now, nil
	}
	next, err := Load(p.Dir, p.Home, p.Host)
	switch {
	case err != nil:
		return now, []string{"the configuration on disk cannot be loaded, this is by the last good one: " + err.Error()}
	case next.Snapshot().Digest() == now.Snapshot().Digest():
		return next, nil
	}
	return next, []string{"the configuration has changed: this is what the next session gets, those that run get it by " +
		"cloister guardian reload"}
}
