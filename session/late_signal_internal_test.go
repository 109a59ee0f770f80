package session

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

// A signal that comes when nothing of a start looks for one any more is the command's, and not lost.
func TestLateSignal(t *testing.T) {
	signals := make(chan os.Signal)
	s := &Shim{Signals: signals}
	starting, _, started := s.untilStarted(t.Context())
	signals <- syscall.SIGWINCH
	signals <- syscall.SIGINT // taken: the start is over before it could end it
	ctx, late := started()
	if late != syscall.SIGINT || ctx.Err() != nil {
		t.Errorf("after the start %v is left for the command, and its context is ended by %v", late, ctx.Err())
	}
	if why, ok := errors.AsType[*Interrupted](context.Cause(starting)); !ok || why.Signal != syscall.SIGINT {
		t.Errorf("the start was ended by %v", context.Cause(starting))
	}

	_, _, started = s.untilStarted(t.Context())
	if _, late := started(); late != nil {
		t.Errorf("%v is left of none", late)
	}
}
