package filerecord

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cloister/api"
	"cloister/sandbox"
)

// MostLeft bounds the commands of one session that have ended, and of which something still runs
// that is recorded. Each takes a thread.
const MostLeft = 32

// Full is the error of a further command where so many have left something running.
type Full struct{}

func (*Full) Error() string {
	return fmt.Sprintf("%d commands have left something running, of which files and programs are recorded", MostLeft)
}

// Hints are the words of what to do.
func (*Full) Hints() []string {
	return []string{"end what they left running, or start it as a command of its own"}
}

// errClosed is the error of a command that begins when all is over.
var errClosed = errors.New("record files and programs: the session is over")

// A Set records what the commands that join one session do, and what they leave running, for as
// long as that runs.
type Set struct {
	ctx  context.Context
	send func(context.Context, []api.FileEvent) error
	wg   sync.WaitGroup

	mu     sync.Mutex
	left   map[*Command]bool
	closed bool
	missed uint64
	why    error
}

// NewSet has events sent by send. What ends ctx does not end the record.
func NewSet(ctx context.Context, send func(context.Context, []api.FileEvent) error) *Set {
	return &Set{ctx: context.WithoutCancel(ctx), send: send, left: map[*Command]bool{}}
}

// A Command is one that joins, from before its start until nothing of it is left.
type Command struct {
	set   *Set
	batch *Batch

	mu       sync.Mutex
	recorder sandbox.Recorder // of what it left running
}

// Begin begins the record of a command. The error is [Full] where too many have left something.
func (s *Set) Begin() (*Command, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case len(s.left) >= MostLeft:
		return nil, &Full{}
	}
	return &Command{set: s, batch: New(s.ctx, s.send)}, nil
}

// Wire has a command's box report here.
func (c *Command) Wire(w *sandbox.Wiring) {
	w.Watched = c.batch.Add
	w.Left = func(r sandbox.Recorder) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.recorder = r
	}
}

// End says that the command's box is over, or was none. It returns when all is recorded, or a
// moment later where something is left that goes on. What was not recorded until then it says.
func (c *Command) End() (missed uint64, why error) {
	c.mu.Lock()
	recorder := c.recorder
	c.mu.Unlock()
	if recorder == nil {
		return c.batch.Close()
	}
	s := c.set
	s.mu.Lock()
	s.left[c] = true
	if s.closed {
		recorder.GiveUp()
	}
	s.wg.Add(1)
	s.mu.Unlock()
	over := make(chan struct{})
	go func() {
		defer s.wg.Done()
		err := recorder.Close()
		n, whyNot := c.batch.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.left, c)
		s.missed += n
		s.why = errors.Join(s.why, err)
		if n > 0 {
			s.why = whyNot
		}
		close(over)
	}()
	soon := time.NewTimer(moment)
	defer soon.Stop()
	select {
	case <-over:
		s.mu.Lock()
		defer s.mu.Unlock()
		missed, why = s.missed, s.why
		s.missed, s.why = 0, nil
	case <-soon.C:
	}
	return missed, why
}

// Close records no more of what was left running, and says how many events of it were not
// recorded. It waits for a guardian as long as [Batch.Close] does.
func (s *Set) Close() (missed uint64, why error) {
	s.mu.Lock()
	s.closed = true
	for c := range s.left {
		c.mu.Lock()
		c.recorder.GiveUp()
		c.mu.Unlock()
	}
	s.mu.Unlock()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.missed, s.why
}
