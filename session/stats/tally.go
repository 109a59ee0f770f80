// Package stats counts what one session asked for.
//
// Promise: whatever a hostile program asks, a sum fits one frame of the session's
// link; waiters learn that the numbers moved.
//
// It keeps nothing on the disk: the shim brings the numbers back to the next
// guardian.
//
// Most readers want [New].
package stats

import (
	"net/http"
	"slices"
	"sync"
	"unicode/utf8"

	"cloister/api"
	"cloister/policy"
)

const (
	// maxRefusals bounds the destinations that a summary names: a hostile
	// program asks for as many as it likes.
	maxRefusals = 64
	// maxHosts bounds the hosts that are counted.
	maxHosts = 64
	// maxSecrets bounds the secrets that a summary names as refused.
	maxSecrets = 16
	// maxBrought bounds the files that a summary names as brought.
	maxBrought = 64
	// maxText bounds each text of a refusal, so that a summary fits a frame.
	maxText  = 400
	maxHints = 4
)

// A Tally is one session's numbers.
type Tally struct {
	mu      sync.Mutex
	sum     api.SessionSummary
	used    map[string]string // the secret of the last request to each host, until its answer
	changed chan struct{}     // one token: the numbers moved
}

// New goes on from the numbers that a session has already.
func New(before api.SessionSummary) *Tally {
	t := &Tally{sum: before, used: map[string]string{}, changed: make(chan struct{}, 1)}
	// What a shim brings back is bounded like what is counted here.
	if extra := len(t.sum.Refusals) - maxRefusals; extra > 0 {
		t.sum.Refusals, t.sum.More = t.sum.Refusals[:maxRefusals], t.sum.More+extra
	}
	for i := range t.sum.Refusals {
		bound(&t.sum.Refusals[i])
	}
	t.sum.Hosts = slices.Clone(t.sum.Hosts[:min(len(t.sum.Hosts), maxHosts)])
	for i := range t.sum.Hosts {
		cut(&t.sum.Hosts[i].Host)
	}
	t.sum.Unauthorized = slices.Clone(t.sum.Unauthorized[:min(len(t.sum.Unauthorized), maxSecrets)])
	for i := range t.sum.Unauthorized {
		cut(&t.sum.Unauthorized[i].Secret)
		cut(&t.sum.Unauthorized[i].Host)
	}
	t.sum.Brought = slices.Clone(t.sum.Brought[:min(len(t.sum.Brought), maxBrought)])
	for i := range t.sum.Brought {
		cut(&t.sum.Brought[i])
	}
	return t
}

// Brought takes a file that came back on a branch, as BRANCH:PATH, and reports whether the summary names it now for the
// first time; more says that it names so many already that it only counts this one.
func (t *Tally) Brought(file string) (first, more bool) {
	cut(&file)
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.sum.Brought, file) {
		return false, false
	}
	defer t.Mark()
	if len(t.sum.Brought) == maxBrought {
		t.sum.MoreBrought++
		return false, true
	}
	t.sum.Brought = append(t.sum.Brought, file)
	return true, false
}

// Allowed counts what passed to a host; "" for what went to none.
func (t *Tally) Allowed(host string) {
	t.mu.Lock()
	t.sum.Allowed++
	i := slices.IndexFunc(t.sum.Hosts, func(h api.HostCount) bool { return h.Host == host })
	switch {
	case i >= 0:
		t.sum.Hosts[i].Count++
	case host != "" && len(t.sum.Hosts) < maxHosts:
		cut(&host)
		t.sum.Hosts = append(t.sum.Hosts, api.HostCount{Host: host, Count: 1})
	}
	t.mu.Unlock()
	t.Mark()
}

// Used notes that a secret goes out in a request to a host.
func (t *Tally) Used(secret, host string) {
	cut(&host)
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.used[host]; known || len(t.used) < maxHosts {
		t.used[host] = secret
	}
}

// Answered takes the status of an answer. A secret that is refused with 401 is kept in
// the summary until the same host takes it.
func (t *Tally) Answered(host string, status int) {
	cut(&host)
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok := t.used[host]
	if !ok {
		return
	}
	delete(t.used, host)
	r := api.SecretRefused{Secret: name, Host: host}
	at := slices.Index(t.sum.Unauthorized, r)
	switch {
	case status == http.StatusUnauthorized && at < 0 && len(t.sum.Unauthorized) < maxSecrets:
		t.sum.Unauthorized = append(t.sum.Unauthorized, r)
	case status >= 200 && status < 300 && at >= 0:
		t.sum.Unauthorized = slices.Delete(t.sum.Unauthorized, at, at+1)
	default:
		return
	}
	t.Mark()
}

// Asked counts a question that a person answered; what became of it is counted
// apart from that.
func (t *Tally) Asked() {
	t.mu.Lock()
	t.sum.Asked++
	t.mu.Unlock()
	t.Mark()
}

// RefusedCommand counts a host command that did not run. Its caller was notified
// why; the summary names destinations only.
func (t *Tally) RefusedCommand(v policy.Verdict) {
	t.mu.Lock()
	if v.Effect == policy.Ask {
		t.sum.Asked++
	} else {
		t.sum.Denied++
	}
	t.mu.Unlock()
	t.Mark()
}

// Refused counts r, with its like if there was one.
func (t *Tally) Refused(r api.Refusal) {
	bound(&r)
	t.mu.Lock()
	if r.Effect == "ask" {
		t.sum.Asked++
	} else {
		t.sum.Denied++
	}
	i := slices.IndexFunc(t.sum.Refusals, func(o api.Refusal) bool {
		return o.Host == r.Host && o.Port == r.Port && o.Effect == r.Effect && o.Rule == r.Rule
	})
	switch {
	case i >= 0:
		t.sum.Refusals[i].Count++
	case len(t.sum.Refusals) < maxRefusals:
		r.Count = 1
		t.sum.Refusals = append(t.sum.Refusals, r)
	default:
		t.sum.More++
	}
	t.mu.Unlock()
	t.Mark()
}

// Mark says that the numbers moved.
func (t *Tally) Mark() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// Changed has one token when the numbers moved.
func (t *Tally) Changed() <-chan struct{} { return t.changed }

// Summary is what the session came to so far.
func (t *Tally) Summary() api.SessionSummary {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sum
	s.Refusals, s.Hosts, s.Unauthorized = slices.Clone(s.Refusals), slices.Clone(s.Hosts), slices.Clone(s.Unauthorized)
	s.Brought = slices.Clone(s.Brought)
	return s
}

func bound(r *api.Refusal) {
	for _, s := range []*string{&r.Host, &r.Reason, &r.Rule, &r.Place, &r.Effect} {
		cut(s)
	}
	if len(r.Hints) > maxHints {
		r.Hints = r.Hints[:maxHints]
	}
	r.Hints = slices.Clone(r.Hints)
	for i := range r.Hints {
		cut(&r.Hints[i])
	}
}

func cut(s *string) {
	if len(*s) <= maxText {
		return
	}
	n := maxText
	for n > 0 && !utf8.RuneStart((*s)[n]) {
		n--
	}
	*s = (*s)[:n] + "…"
}
