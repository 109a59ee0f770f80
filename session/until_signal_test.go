package session_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"cloister/session"
)

// What is done once a session is over ends with a signal, and not with a window's size.
func TestUntilSignal(t *testing.T) {
	signals := make(chan os.Signal)
	ctx, stop := session.UntilSignal(t.Context(), signals)
	signals <- syscall.SIGWINCH
	if err := ctx.Err(); err != nil {
		t.Errorf("a window's size ended it: %v", err)
	}
	signals <- syscall.SIGTERM
	<-ctx.Done()
	if why, ok := errors.AsType[*session.Interrupted](context.Cause(ctx)); !ok || why.Signal != syscall.SIGTERM {
		t.Errorf("ended by %v", context.Cause(ctx))
	}
	signals <- syscall.SIGINT // a second one keeps no sender waiting
	stop()

	ctx, stop = session.UntilSignal(t.Context(), make(chan os.Signal))
	stop()
	if why := context.Cause(ctx); !errors.Is(why, context.Canceled) {
		t.Errorf("ended by %v without a signal", why)
	}
}
