package mint_test

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cloister/egress/internal/mint"
)

// No authority is given twice, whether one was ready or not, and one that has lain
// for days is not given at all.
func TestSupply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			s    mint.Supply
			mu   sync.Mutex
			seen [][]byte
			wg   sync.WaitGroup
		)
		take := func() {
			a, err := s.Take()
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, other := range seen {
				if bytes.Equal(a.PEM(), other) {
					t.Error("one authority was given twice")
				}
			}
			seen = append(seen, a.PEM())
		}
		for range 3 {
			for range 4 {
				wg.Go(take)
			}
			wg.Wait()
			<-time.After(time.Second) // the next is ready
		}
		take()
		made := time.Now()
		<-time.After(72 * time.Hour)
		a, err := s.Take()
		if err != nil {
			t.Fatal(err)
		}
		if from := parse(t, a.PEM()).NotBefore; from.Before(made.Add(24 * time.Hour)) {
			t.Errorf("taken at %v: good from %v: it has lain for days", time.Now(), from)
		}
		<-time.After(time.Second) // nothing is left waiting
	})
}
