package mint

import (
	"sync"
	"time"
)

// A Supply has an authority ready before a session asks for one: to make it takes
// as long as a thirtieth of a session's start. The zero value is ready to use,
// safe for use by several goroutines.
type Supply struct {
	mu   sync.Mutex
	next *Authority
	made time.Time
	soon bool // one is about to be made
}

const (
	// afterwards is when the next is made: when the start that took the last one
	// is over.
	afterwards = 100 * time.Millisecond
	// fresh is how old one may be when it is taken: its time runs from when it was made.
	fresh = 24 * time.Hour
)

// Take gives an authority that no one else has or had.
func (s *Supply) Take() (*Authority, error) {
	s.mu.Lock()
	a, made := s.next, s.made
	s.next = nil
	if !s.soon {
		s.soon = true
		time.AfterFunc(afterwards, s.fill)
	}
	s.mu.Unlock()
	// By both clocks: one of them may have been set, or may have slept.
	now := time.Now()
	if age := now.Round(0).Sub(made.Round(0)); a != nil && age >= 0 && age < fresh && now.Sub(made) < fresh {
		return a, nil
	}
	return New(time.Now)
}

func (s *Supply) fill() {
	a, err := New(time.Now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.soon = false
	if err == nil { // otherwise Take tries again
		s.next, s.made = a, time.Now()
	}
}
