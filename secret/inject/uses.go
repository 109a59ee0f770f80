package inject

import (
	"sync"
	"time"
)

// A Count is what became of one secret.
type Count struct {
	Uses, Refused int
	Last          time.Time
}

// Uses counts the uses of secrets. The zero Uses has seen none.
type Uses struct {
	mu    sync.Mutex
	names map[string]Count
}

// Add counts one.
func (u *Uses) Add(name string, allowed bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.names == nil {
		u.names = map[string]Count{}
	}
	c := u.names[name]
	if allowed {
		c.Uses, c.Last = c.Uses+1, time.Now()
	} else {
		c.Refused++
	}
	u.names[name] = c
}

// Of is what became of a secret.
func (u *Uses) Of(name string) Count {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.names[name]
}
