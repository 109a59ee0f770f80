// Package quota bounds what one session may do, whatever rules allow.
//
// Promise: what would go beyond a bound is counted for nothing, and refused in words that
// say how to widen it. It knows no connection, and refuses nothing by itself.
//
// Most readers want [New].
package quota

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"cloister/egress/internal/errtext"
	"cloister/egress/internal/names"
	"cloister/egress/internal/rate"
)

// Bounds bound what one session may do, whatever rules allow. A zero field is
// no bound.
type Bounds struct {
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
	Limited    int64 // refused because of the Bounds
}

// A Counter counts for one session.
type Counter struct {
	bounds atomic.Pointer[Bounds]
	refuse func(Error) error
	most   int                  // names
	now    func() time.Duration // since the session began, whatever the clock is set to

	requests, underWay, up, limited, free atomic.Int64

	mu      sync.Mutex
	minute  rate.Window
	hosts   map[string]*Host
	names   map[string]bool
	parents map[string]*parentUse
}

// Host is what went to one host.
type Host struct{ up atomic.Int64 }

// parentUse are the new names below one parent.
type parentUse struct{ names, bytes rate.Window }

func New(b Bounds, names int, refuse func(Error) error) *Counter {
	out := &Counter{refuse: refuse, most: names, now: sinceNow(), hosts: map[string]*Host{}, names: map[string]bool{},
		parents: map[string]*parentUse{}}
	out.minute = rate.Of(time.Second)
	out.bounds.Store(&b)
	return out
}

func sinceNow() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Usage tells what was used so far.
func (q *Counter) Usage() Usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Usage{
		Requests: q.requests.Load(), LastMinute: int(q.minute.Sum(q.now())), UnderWay: int(q.underWay.Load()),
		Up: q.up.Load(), Names: len(q.names), Limited: q.limited.Load(),
	}
}

// Set puts b in the place of the Bounds that were. What was counted stays.
func (q *Counter) Set(b Bounds) { q.bounds.Store(&b) }

// Bounds are those in force.
func (q *Counter) Bounds() Bounds { return *q.bounds.Load() }

// Limit counts a refusal by a bound.
func (q *Counter) Limit() { q.limited.Add(1) }

// An Error is a bound that was reached.
type Error struct {
	Status int
	Rule   string // the bound's name
	Reason string
	Hints  []string // the words that would widen it
	Retry  time.Duration
}

// Over refuses by a bound, with the words that would widen it.
func Over(status int, key, reason, more string) Error {
	return Error{Status: status, Reason: reason, Rule: "limit " + key,
		Hints: []string{"in config.yaml: proxy: {" + more + "}"}}
}

// Take counts one request, or one connection whose requests are not read.
func (q *Counter) Take() error {
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
	err := Over(http.StatusTooManyRequests, "rate_limit.requests_per_minute",
		fmt.Sprintf("more than %d requests in a minute", most),
		fmt.Sprintf("rate_limit: {requests_per_minute: %d}", 2*most))
	err.Retry = wait
	return q.refuse(err)
}

// Begin counts one request as under way. After nil, end is called.
func (q *Counter) Begin() error {
	if err := q.Take(); err != nil {
		return err
	}
	most := q.bounds.Load().Requests
	if now := q.underWay.Add(1); most > 0 && now > int64(most) {
		q.underWay.Add(-1)
		err := Over(http.StatusTooManyRequests, "rate_limit.concurrent_requests",
			fmt.Sprintf("more than %d requests at once", most),
			fmt.Sprintf("rate_limit: {concurrent_requests: %d}", 2*most))
		err.Retry = time.Second
		return q.refuse(err)
	}
	return nil
}

func (q *Counter) End() { q.underWay.Add(-1) }

// mostHosts bounds the hosts that are counted apart; those beyond share a count.
const mostHosts = 1 << 14

func (q *Counter) Host(name string) *Host {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hosts[name] == nil && len(q.hosts) >= mostHosts {
		name = ""
	}
	h := q.hosts[name]
	if h == nil {
		h = new(Host)
		q.hosts[name] = h
	}
	return h
}

// Spend counts n bytes that are about to go up to h.
func (q *Counter) Spend(h *Host, n int64) error {
	b := q.bounds.Load()
	host, all := h.up.Add(n), q.up.Add(n)
	err := q.upload(b, host, all)
	if err != nil {
		h.up.Add(-n)
		q.up.Add(-n)
	}
	return err
}

// Fits reports whether a body of n bytes may go up to h whole: one whose length is given
// is refused before any of it goes.
func (q *Counter) Fits(h *Host, n int64) error {
	return q.upload(q.bounds.Load(), h.up.Load()+n, q.up.Load()+n)
}

// upload refuses so many bytes up to one host, and in all.
func (q *Counter) upload(b *Bounds, host, all int64) error {
	if b.UploadHost > 0 && host > b.UploadHost {
		return q.refuse(Over(http.StatusRequestEntityTooLarge, "upload_limit.host",
			fmt.Sprintf("more than %d bytes sent to this host", b.UploadHost),
			fmt.Sprintf("upload_limit: {host: %d}", errtext.Enough(b.UploadHost, host))))
	}
	if b.UploadSession > 0 && all > b.UploadSession {
		return q.refuse(Over(http.StatusRequestEntityTooLarge, "upload_limit.session",
			fmt.Sprintf("more than %d bytes sent by this session", b.UploadSession),
			fmt.Sprintf("upload_limit: {session: %d}", errtext.Enough(b.UploadSession, all))))
	}
	return nil
}

// Head counts a head of n bytes as spend does, less what is ordinary of a session's
// first: a bound of few bytes speaks of bodies.
func (q *Counter) Head(h *Host, n int64) error {
	free := min(n, 1<<10)
	if q.free.Add(free) > 16<<10 {
		free = 0
	}
	return q.Spend(h, n-free)
}

// Room is how much more may go up to h, at most most.
func (q *Counter) Room(h *Host, most int64) int64 {
	b := q.bounds.Load()
	if b.UploadHost > 0 {
		most = min(most, b.UploadHost-h.up.Load())
	}
	if b.UploadSession > 0 {
		most = min(most, b.UploadSession-q.up.Load())
	}
	return max(most, 0)
}

// Name lets a name be asked of the host's resolver. Each counts once.
func (q *Counter) Name(host string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.names[host] {
		return nil
	}
	if len(q.names) >= q.most {
		return q.refuse(Error{Status: http.StatusTooManyRequests, Reason: names.ErrFull.Error(), Rule: "limit names"})
	}
	parent := names.Parent(host)
	p := q.parents[parent]
	if p == nil {
		p = &parentUse{names: rate.Of(time.Second), bytes: rate.Of(time.Second)}
		q.parents[parent] = p
	}
	now := q.now()
	own := int64(len(host) - len(parent))
	if most := int64(q.bounds.Load().NamesPerMinute); most > 0 &&
		(p.names.Sum(now) >= most || p.bytes.Sum(now)+own > most*labelBytes) {
		err := Over(http.StatusTooManyRequests, "rate_limit.names_per_minute",
			fmt.Sprintf("more new names below %s in a minute than %d, or longer ones", parent, most),
			fmt.Sprintf("rate_limit: {names_per_minute: %d}", 2*most))
		err.Retry = p.names.Next(now)
		return q.refuse(err)
	}
	q.names[host] = true
	p.names.Add(now, 1)
	p.bytes.Add(now, own)
	return nil
}
