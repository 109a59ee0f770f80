// Package budget bounds the memory of what passes through the guardian, over all
// sessions: connections, windows, compressed bodies that are searched, MCP frames.
//
// Promise: a session takes at most half of what the others leave, so that none leaves
// another without, and one that holds little can take one large thing more, of what is
// spare; what is in the buffers of HTTP/2 is counted as its flow control does, byte by
// byte: data that has come and that no one has read.
//
// It measures no heap: its users say how much they take. It refuses nothing by itself.
//
// Most readers want [New], then [Share.Take] or [Share.Conn].
package budget

import (
	"errors"
	"sync"
	"time"
)

// ErrFull says that a session holds all that it may.
var ErrFull = errors.New("this session holds all the memory that the guardian has for it")

// A Budget is what all sessions have together.
type Budget struct {
	most   int64
	spare  int64         // besides most, for sessions that hold little
	within time.Duration // to wait for some

	mu    sync.Mutex
	used  int64
	freed chan struct{} // closed when some is given back; nil where nothing waits
}

// New is a budget of so many bytes and some to spare, for which who can wait waits so long.
func New(most, spare int64, within time.Duration) *Budget {
	return &Budget{most: most, spare: spare, within: within}
}

// A Share is one session's. A nil Share has no bound.
type Share struct {
	of   *Budget
	used int64 // under the budget's lock
}

// Share begins a session's.
func (b *Budget) Share() *Share {
	if b == nil {
		return nil
	}
	return &Share{of: b}
}

// Take takes n bytes, if the session may have them now. They are given back by Give.
func (s *Share) Take(n int64) error {
	if s == nil {
		return nil
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.used+n > s.of.most-s.of.used && !s.first(n) {
		return ErrFull
	}
	s.used, s.of.used = s.used+n, s.of.used+n
	return nil
}

// little is which part of the budget a session holds that holds little.
const little = 16

// first reports whether n bytes may come of what is spare: for one large thing of a session
// that holds little.
func (s *Share) first(n int64) bool {
	b := s.of
	return s.used <= b.most/little && n > b.most/little && n <= b.spare && n <= b.most+b.spare-b.used
}

// Give gives back what was taken.
func (s *Share) Give(n int64) {
	if s == nil || n == 0 {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.used, s.of.used = s.used-n, s.of.used-n
	if s.of.freed != nil {
		close(s.of.freed)
		s.of.freed = nil
	}
}

// Wait is Take that waits for what others give back, until closed is.
func (s *Share) Wait(n int64, closed <-chan struct{}) error {
	if s == nil {
		return nil
	}
	return s.wait(n, s.of.within, closed, nil)
}

// look is how often a wait looks whether its peer is still there.
const look = 100 * time.Millisecond

// wait is Wait for that long, which also ends once ended, which may be nil, says so.
func (s *Share) wait(n int64, within time.Duration, closed <-chan struct{}, ended func() bool) error {
	if s.Take(n) == nil {
		return nil
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	var looks <-chan time.Time
	if ended != nil {
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		looks = ticker.C
	}
	for {
		s.of.mu.Lock()
		if s.of.freed == nil {
			s.of.freed = make(chan struct{})
		}
		freed := s.of.freed
		s.of.mu.Unlock()
		if s.Take(n) == nil {
			return nil
		}
		select {
		case <-freed:
		case <-looks:
			if ended() {
				return ErrFull
			}
		case <-closed:
			return ErrFull
		case <-timer.C:
			return ErrFull
		}
	}
}

// Used is what all sessions hold.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
