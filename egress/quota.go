package egress

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloister/egress/internal/names"
	"cloister/egress/internal/window"
	"cloister/egress/internal/words"
)

// A Quota bounds what one session may do, whatever rules allow. A zero field is
// no bound.
type Quota struct {
	RequestsPerMinute int   // requests that are read, and connections that are not
	Requests          int   // under way at once
	RequestBytes      int64 // the body of one
	UploadSession     int64 // all bytes up
	UploadHost        int64 // bytes up to one host
	// NamesPerMinute are names below one parent, its last two labels, that the
	// session had not named before: names under a wildcard that is allowed
	// are asked of that parent's servers, and so can carry data.
	NamesPerMinute int
}

// labelBytes is how much of a new name its part before the parent may be on
// average, so that few long names carry no more than many short ones.
const labelBytes = 40

// Usage is what a session has used.
type Usage struct {
	Requests   int64 // so far
	LastMinute int
	UnderWay   int
	Up         int64 // bytes
	Names      int
	Limited    int64 // refused because of the Quota
}

// quota counts for one session.
type quota struct {
	bounds atomic.Pointer[Quota]
	most   int                  // names
	now    func() time.Duration // since the session began, whatever the clock is set to

	requests, underWay, up, limited, free atomic.Int64

	mu      sync.Mutex
	minute  window.Window
	hosts   map[string]*hostUse
	names   map[string]bool
	parents map[string]*parentUse
}

// hostUse is what went to one host.
type hostUse struct{ up atomic.Int64 }

// parentUse are the new names below one parent.
type parentUse struct{ names, bytes window.Window }

func newQuota(q Quota, names int) *quota {
	out := &quota{most: names, now: sinceNow(), hosts: map[string]*hostUse{}, names: map[string]bool{}, parents: map[string]*parentUse{}}
	out.minute = window.Of(time.Second)
	out.bounds.Store(&q)
	return out
}

func sinceNow() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// SetQuota puts q in the place of the Quota that was. What was counted stays.
func (e *Engine) SetQuota(q Quota) { e.quota.bounds.Store(&q) }

// Quota is the one in force.
func (e *Engine) Quota() Quota { return *e.quota.bounds.Load() }

// Usage tells what the session has used so far.
func (e *Engine) Usage() Usage {
	q := e.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	return Usage{
		Requests: q.requests.Load(), LastMinute: int(q.minute.Sum(q.now())), UnderWay: int(q.underWay.Load()),
		Up: q.up.Load(), Names: len(q.names), Limited: q.limited.Load(),
	}
}

// over refuses by a bound, with the words that would widen it.
func over(status int, key, reason, more string) *formError {
	return &formError{status: status, reason: reason, rule: "limit " + key, hints: []string{"in config.yaml: proxy: {" + more + "}"}}
}

// take counts one request, or one connection whose requests are not read.
func (q *quota) take() error {
	q.requests.Add(1)
	most := q.bounds.Load().RequestsPerMinute
	if most == 0 {
		q.mu.Lock()
		q.minute.Add(q.now(), 1)
		q.mu.Unlock()
		return nil
	}
	q.mu.Lock()
	now := q.now()
	full := q.minute.Sum(now) >= int64(most)
	if !full {
		q.minute.Add(now, 1)
	}
	wait := q.minute.Next(now)
	q.mu.Unlock()
	if !full {
		return nil
	}
	err := over(http.StatusTooManyRequests, "rate_limit.requests_per_minute",
		fmt.Sprintf("more than %d requests in a minute", most),
		fmt.Sprintf("rate_limit: {requests_per_minute: %d}", 2*most))
	err.retry = wait
	return err
}

// begin counts one request as under way. After nil, end is called.
func (q *quota) begin() error {
	if err := q.take(); err != nil {
		return err
	}
	most := q.bounds.Load().Requests
	if now := q.underWay.Add(1); most > 0 && now > int64(most) {
		q.underWay.Add(-1)
		err := over(http.StatusTooManyRequests, "rate_limit.concurrent_requests",
			fmt.Sprintf("more than %d requests at once", most),
			fmt.Sprintf("rate_limit: {concurrent_requests: %d}", 2*most))
		err.retry = time.Second
		return err
	}
	return nil
}

func (q *quota) end() { q.underWay.Add(-1) }

// mostHosts bounds the hosts that are counted apart; those beyond share a count.
const mostHosts = 1 << 14

func (q *quota) host(name string) *hostUse {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hosts[name] == nil && len(q.hosts) >= mostHosts {
		name = ""
	}
	h := q.hosts[name]
	if h == nil {
		h = new(hostUse)
		q.hosts[name] = h
	}
	return h
}

// spend counts n bytes that are about to go up to h.
func (q *quota) spend(h *hostUse, n int64) error {
	b := q.bounds.Load()
	host, all := h.up.Add(n), q.up.Add(n)
	err := b.upload(host, all)
	if err != nil {
		h.up.Add(-n)
		q.up.Add(-n)
	}
	return err
}

// fits says whether a body of n bytes may go up to h whole: one whose length is told
// is refused before any of it goes.
func (q *quota) fits(h *hostUse, n int64) error {
	return q.bounds.Load().upload(h.up.Load()+n, q.up.Load()+n)
}

// upload refuses so many bytes up to one host, and in all.
func (b *Quota) upload(host, all int64) error {
	if b.UploadHost > 0 && host > b.UploadHost {
		return over(http.StatusRequestEntityTooLarge, "upload_limit.host",
			fmt.Sprintf("more than %d bytes sent to this host", b.UploadHost),
			fmt.Sprintf("upload_limit: {host: %d}", words.Enough(b.UploadHost, host)))
	}
	if b.UploadSession > 0 && all > b.UploadSession {
		return over(http.StatusRequestEntityTooLarge, "upload_limit.session",
			fmt.Sprintf("more than %d bytes sent by this session", b.UploadSession),
			fmt.Sprintf("upload_limit: {session: %d}", words.Enough(b.UploadSession, all)))
	}
	return nil
}

// head counts a head of n bytes as spend does, less what is ordinary of a session's
// first: a bound of few bytes speaks of bodies.
func (q *quota) head(h *hostUse, n int64) error {
	free := min(n, 1<<10)
	if q.free.Add(free) > 16<<10 {
		free = 0
	}
	return q.spend(h, n-free)
}

// room is how much more may go up to h, at most most.
func (q *quota) room(h *hostUse, most int64) int64 {
	b := q.bounds.Load()
	if b.UploadHost > 0 {
		most = min(most, b.UploadHost-h.up.Load())
	}
	if b.UploadSession > 0 {
		most = min(most, b.UploadSession-q.up.Load())
	}
	return max(most, 0)
}

// name lets a name be asked of the host's resolver. Each counts once.
func (q *quota) name(host string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names[host] {
		return nil
	}
	if len(q.names) >= q.most {
		return &formError{status: http.StatusTooManyRequests, reason: names.ErrFull.Error(), rule: "limit names"}
	}
	parent := names.Parent(host)
	p := q.parents[parent]
	if p == nil {
		p = &parentUse{names: window.Of(time.Second), bytes: window.Of(time.Second)}
		q.parents[parent] = p
	}
	now := q.now()
	own := int64(len(host) - len(parent))
	if most := int64(q.bounds.Load().NamesPerMinute); most > 0 && (p.names.Sum(now) >= most || p.bytes.Sum(now)+own > most*labelBytes) {
		err := over(http.StatusTooManyRequests, "rate_limit.names_per_minute",
			fmt.Sprintf("more new names below %s in a minute than %d, or longer ones", parent, most),
			fmt.Sprintf("rate_limit: {names_per_minute: %d}", 2*most))
		err.retry = p.names.Next(now)
		return err
	}
	q.names[host] = true
	p.names.Add(now, 1)
	p.bytes.Add(now, own)
	return nil
}

// bound is the most that a body may hold: the rule's word or the session's. length
// is what it says that it holds, if it does.
func (e *Engine) bound(v Verdict, length int64) (int64, *formError) {
	own := e.quota.bounds.Load().RequestBytes
	switch {
	case v.MaxBytes > 0 && (own == 0 || v.MaxBytes <= own):
		return v.MaxBytes, ruled(v, length)
	case own == 0:
		return 0, nil
	}
	return own, over(http.StatusRequestEntityTooLarge, "max_request_bytes", "a body of more than "+strconv.FormatInt(own, 10)+" bytes",
		"max_request_bytes: "+strconv.FormatInt(words.Enough(own, length), 10))
}

// ruled refuses a body by the rule's word.
func ruled(v Verdict, length int64) *formError {
	return &formError{
		status: http.StatusRequestEntityTooLarge, rule: v.Rule, place: v.Place,
		reason: "a body of more than " + strconv.FormatInt(v.MaxBytes, 10) + " bytes, the most that the rule \"" + v.Rule + "\" allows",
		hints:  []string{strings.TrimSpace("in the rule at "+v.Place) + " write bytes: " + strconv.FormatInt(words.Enough(v.MaxBytes, length), 10)},
	}
}
