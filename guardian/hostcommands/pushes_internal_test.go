package hostcommands

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However many pushes a session makes at once, the objects of one are taken at a time; one whose caller has gone waits
// for none.
func TestPushesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pushes
		var at, most atomic.Int32
		var all sync.WaitGroup
		for range maxHosted {
			all.Go(func() {
				over, err := p.turn(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), at.Add(1)))
				<-time.After(10 * time.Second) // the time that git has
				at.Add(-1)
				over()
				over() // a person was asked, and it ended
			})
		}
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.turn(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that is gone: %v", err)
		}
		all.Wait()
		if most.Load() != 1 {
			t.Errorf("%d pushes were taken at once", most.Load())
		}
	})
}

// A push that does not come to its end holds no further one up for ever.
func TestPushesBehindOneThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pushes
		over, err := p.turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := p.turn(t.Context()); err == nil || time.Since(began) != turnWithin {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		over()
		if _, err := p.turn(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What waits for a person is bounded together, and counted out when it is over.
func TestPushesThatWait(t *testing.T) {
	var p pushes
	over, err := p.wait(maxWaiting - 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.wait(2); err == nil {
		t.Error("more waits than may")
	}
	if _, err := p.wait(1); err != nil {
		t.Error(err)
	}
	over()
	over()
	if p.waiting.Load() != 1 {
		t.Errorf("%d bytes are counted", p.waiting.Load())
	}
}
