package egress

import (
	"errors"
	"time"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/guard"
	"cloister/egress/internal/refusal"
	"cloister/egress/verdict"
)

// counted counts a connection that is not read, and refuses it where that is one
// too many.
func (s *stream) counted() bool {
	err := s.e.quota.Take()
	if err == nil {
		return true
	}
	f := s.flow(verdict.Flow{Kind: verdict.Connect})
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
func (s *stream) dialFailed(f verdict.Flow, err error) verdict.Flow {
	f, refused := s.e.undialed(s.flow(f), err)
	if refused {
		s.e.refused(f)
		return f
	}
	s.e.cfg.Journal.Closed(f)
	return f
}

// undialed is f with why its dial led to nothing, and whether that is a refusal of ours.
func (e *Engine) undialed(f verdict.Flow, err error) (_ verdict.Flow, refused bool) {
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
		e.log.Info("dial", "authority", f.Authority.String(), "error", d.Err)
	}
	f.Duration = time.Since(f.Start)
	return f, false
}

// flow fills in what is the stream's.
func (s *stream) flow(f verdict.Flow) verdict.Flow {
	if !f.Authority.IsValid() {
		f.Authority = s.target
	}
	f.Via, f.Dialed = s.via, s.up.dialed
	if f.Start.IsZero() {
		f.Start = s.start
	}
	return f
}

// tellEnd tells the end of a connection whose requests were read.
func (s *stream) tellEnd() {
	f := s.flow(verdict.Flow{Kind: verdict.Connect, Up: s.bodiesUp.Load(), Down: s.bodiesDown.Load()})
	f.Duration = time.Since(f.Start)
	if cause := s.conns.killed(); cause != nil {
		f.Reason = cause.Error()
	}
	if s.client.alert != "" && f.Up+f.Down == 0 && f.Reason == "" { // of TLS 1.3: the handshake was over for us
		f.Reason, f.Hints = distrusted(s.client.alert, s.judged.tunnelHint(s.target))
		s.e.refused(f)
		return
	}
	s.e.cfg.Journal.Closed(f)
}
