package egress

import (
	"errors"
	"os"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/guard"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/tunnel"
	"cloister/egress/internal/verdict"
)

// counted counts a connection that is not read, and refuses it where that is one
// too many.
func (s *stream) counted() bool {
	err := s.e.quota.Take()
	if err == nil {
		return true
	}
	f := s.flow(Flow{Kind: Connect})
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		f.RefusedBy(form)
	}
	if !s.e.refused(f) {
		s.reset()
		return false
	}
	s.refuseAs(refusal.OfFlow(f))
	return false
}

// dialFailed records a dial that led to nothing: forbidden addresses as our
// refusal, the rest as the end of what had been allowed.
func (s *stream) dialFailed(f Flow, err error) Flow {
	f, refused := s.undialed(s.flow(f), err)
	if refused {
		s.e.refused(f)
		return f
	}
	s.e.cfg.Journal.Closed(f)
	return f
}

// undialed is f with why its dial led to nothing, and whether that is a refusal of ours.
func (s *stream) undialed(f Flow, err error) (_ Flow, refused bool) {
	f.Reason = err.Error()
	if forbidden, ok := errors.AsType[*guard.Forbidden](err); ok {
		f.Detail = forbidden.Detail()
		return f, true
	}
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		f.RefusedBy(form)
		return f, true
	}
	if d, ok := errors.AsType[*dial.Error](err); ok && d.Err != nil {
		s.e.log.Info("dial", "authority", f.Authority.String(), "error", d.Err)
	}
	f.Duration = time.Since(f.Start)
	return f, false
}

// flow fills in what is the stream's.
func (s *stream) flow(f Flow) Flow {
	if !f.Authority.IsValid() {
		f.Authority = s.target
	}
	f.Via, f.Dialed = s.via, s.dialed
	if f.Start.IsZero() {
		f.Start = s.start
	}
	return f
}

func (s *stream) newTunnel() *tunnel.Tunnel {
	t := tunnel.New(s.client.Conn, s.up.Conn, &s.e.buffers, s.e.limits.HalfClosed)
	t.Up.Meter(s.e.quota, s.e.quota.Host(s.target.Host()))
	return t
}

// finishTunnel sends what was looked at, then copies to the end.
func (s *stream) finishTunnel(t *tunnel.Tunnel) {
	held := s.client.Take(len(s.client.Held()))
	if err := t.Up.Spend(int64(len(held))); err != nil {
		s.reset()
		s.closed(t, errors.Join(err, <-t.Done))
		return
	}
	n, err := s.up.Conn.Write(held)
	t.Up.N.Add(int64(n))
	s.client.Forget()
	if err != nil {
		t.Down.Limit(s.e.limits.HalfClosed) // an answer may be on its way all the same
		s.closed(t, errors.Join(err, <-t.Done, s.killed()))
		return
	}
	s.closed(t, errors.Join(t.Finish(), s.killed()))
}

// closed tells the end of a tunnel.
func (s *stream) closed(t *tunnel.Tunnel, err error) {
	f := s.flow(Flow{Kind: Connect, Up: t.Up.N.Load(), Down: t.Down.N.Load()})
	f.Duration = time.Since(f.Start)
	form, bounded := errors.AsType[*verdict.Form](err)
	switch cause := s.killed(); {
	case cause != nil:
		f.Reason = cause.Error()
	case bounded:
		f.RefusedBy(form)
		s.e.refused(f)
		return
	case dial.AlertOf(err) != "": // one side's, in TLS that was opened
		f.Reason, f.Hints = "TLS was broken off ("+dial.AlertOf(err)+")", s.tunnelHint()
		s.e.refused(f)
		return
	case errors.Is(err, os.ErrDeadlineExceeded):
		f.Reason = "silent for too long after one side had ended"
	case err != nil:
		f.Reason = "connection broken"
	}
	s.e.cfg.Journal.Closed(f)
}

// tellEnd tells the end of a connection whose requests were read.
func (s *stream) tellEnd() {
	f := s.flow(Flow{Kind: Connect, Up: s.bodiesUp.Load(), Down: s.bodiesDown.Load()})
	f.Duration = time.Since(f.Start)
	if cause := s.killed(); cause != nil {
		f.Reason = cause.Error()
	}
	if s.alert != "" && f.Up+f.Down == 0 && f.Reason == "" { // of TLS 1.3: the handshake was over for us
		f.Reason, f.Hints = s.distrusted(s.alert)
		s.e.refused(f)
		return
	}
	s.e.cfg.Journal.Closed(f)
}
