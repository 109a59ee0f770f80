package e2b

import (
	"net/http"
	"sync"
	"time"

	"cloister/serve/tenants"
)

// rates count what tenants do.
type rates struct {
	now func() time.Time
	mu  sync.Mutex
	of  map[string]*rate
}

// rate is one tenant's: a bucket of a minute's requests, and what is under way.
type rate struct {
	left     float64
	at       time.Time
	underway int
}

// enter counts a request until it is released.
func (c *rates) enter(tenant string, l tenants.Limits) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]*rate{}
	}
	r := c.of[tenant]
	now, full := c.now(), float64(l.RequestsPerMinute)
	if r == nil {
		r = &rate{left: full, at: now}
		c.of[tenant] = r
	}
	r.left = min(full, r.left+now.Sub(r.at).Minutes()*full)
	r.at = now
	if r.left < 1 {
		return nil, &status{http.StatusTooManyRequests, "too many requests in a minute: the tenant's limit"}
	}
	if r.underway >= l.Streams {
		return nil, &status{http.StatusTooManyRequests, "too many requests at once: the tenant's limit"}
	}
	r.left--
	r.underway++
	return func() {
		c.mu.Lock()
		r.underway--
		c.mu.Unlock()
	}, nil
}
