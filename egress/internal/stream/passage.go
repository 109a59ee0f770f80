package stream

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

// Guess waits for the program's first bytes. A program that ends without a
// line of its own has sent nothing that needs a check.
func (t Passage) Guess() (wire.Guess, error) {
	t.s.Client.ReadBy(t.s.Session.Limits.Idle)
	for spoken := len(t.s.Client.Held()) > 0; ; {
		kind, err := wire.GuessProtocol(t.s.Client.Held())
		if !errors.Is(err, wire.ErrShort) {
			return kind, err
		}
		err = t.s.Client.Fill(wire.MaxHead)
		switch {
		case errors.Is(err, io.EOF):
			return wire.Raw, nil
		case errors.Is(err, os.ErrDeadlineExceeded) && !spoken && t.Down.N.Load() > 0:
			t.s.Client.ReadBy(0) // the server spoke; now the program may take its time
		case err != nil:
			t.s.Client.Alert = dial.AlertOf(err)
			return wire.Raw, errors.New("first bytes: " + EndOf(err))
		case !spoken:
			spoken = true
			t.s.Client.ReadBy(t.s.Session.Limits.Handshake)
		}
	}
}

// A Passage is a stream that is passed on as it is.
type Passage struct {
	*tunnel.Tunnel
	s *Stream
}

func (s *Stream) NewTunnel() Passage {
	t := tunnel.New(s.Client.Conn, s.Server.Conn, &s.Session.Buffers, s.Session.Limits.HalfClosed)
	t.Up.Meter(s.Session.Quota, s.Session.Quota.Host(s.Target.Host()))
	return Passage{t, s}
}

// PassOn sends what was looked at, then copies to the end.
func (t Passage) PassOn() {
	held := t.s.Client.Take(len(t.s.Client.Held()))
	if err := t.Up.Spend(int64(len(held))); err != nil {
		t.s.Reset()
		t.Closed(errors.Join(err, <-t.Done))
		return
	}
	n, err := t.s.Server.Conn.Write(held)
	t.Up.N.Add(int64(n))
	t.s.Client.Forget()
	if err != nil {
		t.Down.Limit(t.s.Session.Limits.HalfClosed) // an answer may be on its way all the same
		t.Closed(errors.Join(err, <-t.Done, t.s.Conns.Killed()))
		return
	}
	t.Closed(errors.Join(t.Finish(), t.s.Conns.Killed()))
}

// Closed records the end of a tunnel.
func (t Passage) Closed(err error) {
	f := t.s.Flow(verdict.Flow{Kind: verdict.Connect, Up: t.Up.N.Load(), Down: t.Down.N.Load()})
	f.Duration = time.Since(f.Start)
	form, bounded := errors.AsType[*verdict.Form](err)
	switch cause := t.s.Conns.Killed(); {
	case cause != nil:
		f.Reason = cause.Error()
	case bounded:
		f.RefusedBy(form)
		t.s.Session.Refused(f)
		return
	case dial.AlertOf(err) != "": // one side's, in TLS that was opened
		f.Reason, f.Hints = "TLS was broken off ("+dial.AlertOf(err)+")", t.s.Judged.TunnelHint(t.s.Target)
		t.s.Session.Refused(f)
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		f.Reason = "silent for too long after one side had ended"
	case err != nil:
		f.Reason = "connection broken"
	}
	t.s.Session.Journal.Closed(f)
}
