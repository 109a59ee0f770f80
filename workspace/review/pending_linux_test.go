package review_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"cloister/workspace/review"
)

// Sessions begin and end while others look for what sessions left: none of them fails, and
// none that lives is taken for dead.
func TestSweepBesideSessions(t *testing.T) {
	store := review.Store{Dir: t.TempDir()}
	ctx, over := context.WithCancel(t.Context())
	var sweeps, sessions sync.WaitGroup
	for range 3 {
		sweeps.Go(func() {
			for ctx.Err() == nil {
				err := store.Sweep(t.Context(), func(_ context.Context, p *review.Pending) ([]review.Change, error) {
					t.Errorf("session %s was taken for dead", p.ID)
					return nil, nil
				})
				if err != nil {
					t.Errorf("sweep: %v", err)
				}
			}
		})
	}
	for i := range 4 {
		sessions.Go(func() {
			for n := range 300 {
				p, err := store.Begin(review.Pending{Session: review.Session{ID: fmt.Sprintf("%d-%d", i, n), Root: "/project"}})
				if err != nil {
					t.Errorf("begin: %v", err)
					continue
				}
				if n%2 == 0 {
					err = p.Drop()
				} else {
					err = p.End(nil, time.Now())
				}
				if err != nil {
					t.Errorf("end: %v", err)
				}
			}
		})
	}
	sessions.Wait()
	over()
	sweeps.Wait()
}
