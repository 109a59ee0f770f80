package unpack

import (
	"context"
	"errors"
	"sync"
	"time"
)

// turnWithin is how long a body waits for memory.
const turnWithin = 10 * time.Second

// ErrCrowded ends a body for which there was no memory.
var ErrCrowded = errors.New("too many compressed bodies at once")

// spare is two bodies of the longest window there is.
const spare = 2 * (1<<24 + besides)

// Memory is what all sessions have together.
type Memory struct {
	most   int64
	spare  int64 // besides most, for who has next to nothing of it
	within time.Duration

	mu    sync.Mutex
	used  int64
	freed chan struct{} // closed when some is given back
}

// NewMemory is so many bytes, and 32 MiB for those sessions that would have none of them.
func NewMemory(most int64) *Memory {
	return &Memory{most: most, spare: spare, within: turnWithin, freed: make(chan struct{})}
}

// A Share is what one session takes of it.
type Share struct {
	memory *Memory
	used   int64 // under the memory's lock
}

// Share begins a session's.
func (m *Memory) Share() *Share { return &Share{memory: m} }

// take waits for n bytes. They are held until done, or until ctx ends.
func (s *Share) take(ctx context.Context, n int64) (done func(), err error) {
	timer := time.NewTimer(s.memory.within)
	defer timer.Stop()
	for {
		if err := ctx.Err(); err != nil { // also where some was freed at that moment
			return nil, err //nolint:wrapcheck // as it is
		}
		freed := s.try(n)
		if freed == nil {
			var once sync.Once
			give := func() { once.Do(func() { s.give(n) }) }
			stop := context.AfterFunc(ctx, give)
			return func() { stop(); give() }, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // as it is
		case <-timer.C:
			return nil, ErrCrowded
		case <-freed:
		}
	}
}

// try takes n bytes, or tells what to wait for. No session has more than is left for
// the others; one that has next to nothing can take one body more, of what is spare.
func (s *Share) try(n int64) (freed <-chan struct{}) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	first := s.used <= m.most/128 && n <= m.most+m.spare-m.used
	if s.used+n > m.most-m.used && !first {
		return m.freed
	}
	s.used, m.used = s.used+n, m.used+n
	return nil
}

func (s *Share) give(n int64) {
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	s.used, m.used = s.used-n, m.used-n
	close(m.freed)
	m.freed = make(chan struct{})
}
