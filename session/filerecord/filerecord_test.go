package filerecord_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloister/api"
	"cloister/sandbox"
	"cloister/session/filerecord"
)

// What no guardian takes waits for the next one, in order; what has no room is counted there.
func TestNothingIsLostUnseen(t *testing.T) {
	for name, c := range map[string]struct {
		events int
		away   time.Duration // of the guardian
		missed uint64        // as the caller hears
		told   uint64        // as the record has
	}{
		"all the time there":   {120, 0, 0, 0},
		"away for a while":     {120, 2 * time.Second, 0, 0},
		"away for too many":    {2100, 2 * time.Second, 0, 100},
		"away until after it":  {70, time.Hour, 70, 0},
		"away for more, ended": {2100, time.Hour, 2100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				var told uint64
				var back atomic.Bool
				back.Store(c.away == 0)
				time.AfterFunc(c.away, func() { back.Store(true) })
				ctx, cancel := context.WithCancel(t.Context())
				b := filerecord.New(ctx, func(_ context.Context, list []api.FileEvent) error {
					if !back.Load() {
						return errors.New("no guardian")
					}
					for _, e := range list {
						if e.Op == "several" {
							told += e.More
							continue
						}
						got = append(got, e.Path)
					}
					return nil
				})
				for i := range c.events {
					b.Add(sandbox.FileEvent{Op: "open", Path: fmt.Sprint("/", i)})
				}
				cancel() // whoever waited for the command is gone
				missed, err := b.Close()
				if missed != c.missed || told != c.told || (err != nil) != (c.missed > 0) {
					t.Errorf("missed %d (%v), told of %d; want %d and %d", missed, err, told, c.missed, c.told)
				}
				if uint64(len(got))+missed+told != uint64(c.events) {
					t.Errorf("%d recorded", len(got))
				}
				for i, path := range got {
					if path != fmt.Sprint("/", i) {
						t.Fatalf("the %dth is %s", i, path)
					}
				}
			})
		})
	}
}
