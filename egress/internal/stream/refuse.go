package stream

import (
	"errors"
	"net/http"
	"time"

	"cloister/egress/internal/errtext"
	"cloister/egress/internal/refusal"
	"cloister/egress/internal/sock"
	"cloister/egress/internal/wire"
	"cloister/egress/verdict"
)

// Reset ends the program's connection with RST, and the dialled one with it.
func (s *Stream) Reset() {
	sock.Reset(s.Client.Conn)
	s.Server.reset()
}

// Say sends the program its last bytes and closes, so that they arrive.
func (s *Stream) Say(b []byte) {
	if !s.Client.say(b) {
		s.Reset()
	}
}

// RefuseRaw records a refusal and resets.
func (s *Stream) RefuseRaw(f verdict.Flow) {
	s.Session.Refused(s.Flow(f))
	s.Reset()
}

// RefuseForm refuses a protocol that has no place on this port.
func (s *Stream) RefuseForm(reason string) {
	f := s.Flow(verdict.Flow{Kind: verdict.Connect, Reason: reason})
	if !s.Session.Refused(f) {
		s.Reset()
		return
	}
	s.RefuseAs(refusal.Refusal{Status: http.StatusBadRequest, Host: s.Target.Host(), Port: s.Target.Port(),
		Reason: reason})
}

// RefuseSilent ends a connection whose first bytes did not come.
func (s *Stream) RefuseSilent(err error) {
	f := s.Flow(verdict.Flow{Kind: verdict.Connect, Reason: "first bytes: " + EndOf(err)})
	if cause := s.Conns.Killed(); cause != nil {
		f.Reason = cause.Error()
	}
	f.Duration = time.Since(f.Start)
	s.Session.Journal.Closed(f)
	s.Reset()
}

// RefuseTLS records and answers with an alert.
func (s *Stream) RefuseTLS(f verdict.Flow) {
	if !s.Session.Refused(s.Flow(f)) {
		s.Reset()
		return
	}
	s.Say(errtext.Alert(http.StatusForbidden))
}

// RefuseAs answers in the protocol that the program speaks or shows in a moment, or by a
// reset.
func (s *Stream) RefuseAs(r refusal.Refusal) {
	s.Client.ReadBy(classifyRefused)
	for {
		kind, err := wire.GuessProtocol(s.Client.Held())
		if errors.Is(err, wire.ErrShort) {
			if s.Client.Fill(wire.MaxHead) == nil {
				continue
			}
		}
		switch {
		case err == nil && kind == wire.TLS:
			s.Say(errtext.Alert(r.Status))
		case err == nil && kind == wire.HTTP:
			s.Client.ReadBy(classifyRefused)
			req, _ := s.Client.ReadRequest() // only for what it accepts; a bad head gets JSON
			s.Say(r.Response(req))
		default:
			s.Reset()
		}
		return
	}
}
