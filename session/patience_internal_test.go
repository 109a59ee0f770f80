package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloister/api"
	"cloister/api/client"
)

// TestPatience: a guardian that hangs and a box that does not start are told apart, and each is waited for as
// long as it may take.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := func(d time.Duration) { <-time.After(d) } // by the clock of the test
		s := &Shim{StartWithin: time.Minute, Request: api.SessionRequest{Isolation: "gvisor"}}
		ctx, _, started := s.untilStarted(t.Context())
		pass(client.OpenWithin - time.Second)
		if ctx.Err() != nil {
			t.Fatal(context.Cause(ctx))
		}
		pass(2 * time.Second)
		if err := cause(ctx, ctx.Err()); !errors.Is(err, client.ErrNoAnswer) {
			t.Errorf("a guardian that hangs: %v", err)
		}
		started()

		ctx, granted, started := s.untilStarted(t.Context())
		pass(client.OpenWithin - time.Second)
		granted()
		pass(time.Minute - time.Second)
		if ctx.Err() != nil {
			t.Fatalf("a box that was granted: %v", context.Cause(ctx))
		}
		pass(2 * time.Second)
		if err := cause(ctx, ctx.Err()); err == nil || errors.Is(err, client.ErrNoAnswer) ||
			!strings.Contains(err.Error(), "did not run within 1m0s, which --isolation gvisor may take") {
			t.Errorf("a box that does not start: %v", err)
		}
		started()

		ctx, granted, started = s.untilStarted(t.Context())
		granted()
		if whole, _ := started(); whole != t.Context() {
			t.Error("what runs is bounded")
		}
		pass(time.Hour)
		if _, slow := errors.AsType[*TooSlow](context.Cause(ctx)); slow {
			t.Error("what runs is too slow")
		}
	})
}
