// Package rates counts what tenants do with a server, and bounds it.
//
// The promise: a tenant's requests in a minute, its requests at once and its answers that
// are held in memory whole stay within its limits, whatever other tenants do. It knows no
// wire format.
//
// Most readers want [Rates.Enter].
package rates

import (
	"context"
	"sync"
	"time"

	"cloister/serve"
	"cloister/serve/tenants"
)

// Rates count what tenants do.
type Rates struct {
	Now func() time.Time

	mu sync.Mutex
	of map[string]*rate
	// large has a place for each answer of a tenant's that is held in memory whole.
	large map[string]chan struct{}
}

// maxLarge are the listings of one tenant under way at once; a further one waits.
const maxLarge = 8

// EnterLarge waits for a place.
func (c *Rates) EnterLarge(ctx context.Context, tenant string) (done func(), err error) {
	c.mu.Lock()
	if c.large == nil {
		c.large = map[string]chan struct{}{}
	}
	places := c.large[tenant]
	if places == nil {
		places = make(chan struct{}, maxLarge)
		c.large[tenant] = places
	}
	c.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rate is one tenant's: a bucket of a minute's requests, and what is under way.
type rate struct {
	left     float64
	at       time.Time
	underway int
}

// Enter counts a request until it is released. Its error is of type *[serve.Over].
func (c *Rates) Enter(tenant string, l tenants.Limits) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]*rate{}
	}
	r := c.of[tenant]
	now, full := c.Now(), float64(l.RequestsPerMinute)
	if r == nil {
		r = &rate{left: full, at: now}
		c.of[tenant] = r
	}
	r.left = min(full, r.left+max(0, now.Sub(r.at).Minutes())*full)
	r.at = now
	if r.left < 1 {
		return nil, &serve.Over{What: "too many requests in a minute: the tenant's limit"}
	}
	if r.underway >= l.Streams {
		return nil, &serve.Over{What: "too many requests at once: the tenant's limit"}
	}
	r.left--
	r.underway++
	return func() {
		c.mu.Lock()
		r.underway--
		c.mu.Unlock()
	}, nil
}
