package stream

import (
	"errors"
	"strings"
	"time"

	"cloister/egress/internal/refusal"
	"cloister/egress/verdict"
)

// Counted counts a connection that is not read, and refuses it where that is one
// too many.
func (s *Stream) Counted() bool {
	err := s.Session.Quota.Take()
	if err == nil {
		return true
	}
	f := s.Flow(verdict.Flow{Kind: verdict.Connect})
	if form, ok := errors.AsType[*verdict.Form](err); ok {
		f.RefusedBy(form)
	}
	if !s.Session.Refused(f) {
		s.Reset()
		return false
	}
	s.RefuseAs(refusal.OfFlow(f))
	return false
}

// DialFailed records a dial that led to nothing: forbidden addresses as our
// refusal, the rest as the end of what had been allowed.
func (s *Stream) DialFailed(f verdict.Flow, err error) verdict.Flow {
	f, refused := s.Session.Undialed(s.Flow(f), err)
	if refused {
		s.Session.Refused(f)
		return f
	}
	s.Session.Journal.Closed(f)
	return f
}

// Flow fills in what is the stream's.
func (s *Stream) Flow(f verdict.Flow) verdict.Flow {
	if !f.Authority.IsValid() {
		f.Authority = s.Target
	}
	f.Via, f.Dialed = s.Via, s.Server.Dialed
	if f.Start.IsZero() {
		f.Start = s.Start
	}
	return f
}

// TellEnd tells the end of a connection whose requests were read.
func (s *Stream) TellEnd() {
	f := s.Flow(verdict.Flow{Kind: verdict.Connect, Up: s.BodiesUp.Load(), Down: s.BodiesDown.Load()})
	f.Duration = time.Since(f.Start)
	if cause := s.Conns.Killed(); cause != nil {
		f.Reason = cause.Error()
	}
	if s.Client.Alert != "" && f.Up+f.Down == 0 && f.Reason == "" { // of TLS 1.3: the handshake was over for us
		f.Reason, f.Hints = Distrusted(s.Client.Alert, s.Judged.TunnelHint(s.Target))
		s.Session.Refused(f)
		return
	}
	s.Session.Journal.Closed(f)
}

// echRequired is the alert of a program that takes no server but one which has the
// keys of its encrypted ClientHello (RFC 9849 6.1.6).
const echRequired = "121"

// Distrusted says why a program ended TLS with an alert, and what would help.
func Distrusted(alert string, hints []string) (reason string, _ []string) {
	if strings.Contains(alert, echRequired) || strings.Contains(alert, "encrypted client hello") {
		return "the program insists on an encrypted ClientHello, which is never passed on (" + alert + ")",
			[]string{"switch encrypted ClientHello off in the program: connections go to the name that they were made to"}
	}
	return "the program does not trust the session's certificate (" + alert + ")", hints
}
