package egress

import (
	"errors"
	"io"
	"os"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/tunnel"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
)

// guess waits for the program's first bytes. A program that ends without a
// line of its own has sent nothing that needs a check.
func (t passage) guess() (wire.Guess, error) {
	t.s.client.readBy(t.s.e.limits.Idle)
	for spoken := len(t.s.client.Held()) > 0; ; {
		kind, err := wire.GuessProtocol(t.s.client.Held())
		if !errors.Is(err, wire.ErrShort) {
			return kind, err
		}
		err = t.s.client.Fill(wire.MaxHead)
		switch {
		case errors.Is(err, io.EOF):
			return wire.Raw, nil
		case errors.Is(err, os.ErrDeadlineExceeded) && !spoken && t.Down.N.Load() > 0:
			t.s.client.readBy(0) // the server spoke; now the program may take its time
		case err != nil:
			t.s.client.alert = dial.AlertOf(err)
			return wire.Raw, errors.New("first bytes: " + endOf(err))
		case !spoken:
			spoken = true
			t.s.client.readBy(t.s.e.limits.Handshake)
		}
	}
}

// A passage is a stream that is passed on as it is.
type passage struct {
	*tunnel.Tunnel
	s *stream
}

func (s *stream) newTunnel() passage {
	t := tunnel.New(s.client.Conn, s.up.Conn, &s.e.buffers, s.e.limits.HalfClosed)
	t.Up.Meter(s.e.quota, s.e.quota.Host(s.target.Host()))
	return passage{t, s}
}

// finish sends what was looked at, then copies to the end.
func (t passage) finish() {
	held := t.s.client.Take(len(t.s.client.Held()))
	if err := t.Up.Spend(int64(len(held))); err != nil {
		t.s.reset()
		t.closed(errors.Join(err, <-t.Done))
		return
	}
	n, err := t.s.up.Conn.Write(held)
	t.Up.N.Add(int64(n))
	t.s.client.Forget()
	if err != nil {
		t.Down.Limit(t.s.e.limits.HalfClosed) // an answer may be on its way all the same
		t.closed(errors.Join(err, <-t.Done, t.s.conns.killed()))
		return
	}
	t.closed(errors.Join(t.Finish(), t.s.conns.killed()))
}

// closed records the end of a tunnel.
func (t passage) closed(err error) {
	f := t.s.flow(verdict.Flow{Kind: verdict.Connect, Up: t.Up.N.Load(), Down: t.Down.N.Load()})
	f.Duration = time.Since(f.Start)
	form, bounded := errors.AsType[*verdict.Form](err)
	switch cause := t.s.conns.killed(); {
	case cause != nil:
		f.Reason = cause.Error()
	case bounded:
		f.RefusedBy(form)
		t.s.e.refused(f)
		return
	case dial.AlertOf(err) != "": // one side's, in TLS that was opened
		f.Reason, f.Hints = "TLS was broken off ("+dial.AlertOf(err)+")", t.s.judged.tunnelHint(t.s.target)
		t.s.e.refused(f)
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		f.Reason = "silent for too long after one side had ended"
	case err != nil:
		f.Reason = "connection broken"
	}
	t.s.e.cfg.Journal.Closed(f)
}
