package egress

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

// reset ends the program's connection with RST, and the dialled one with it.
func (s *stream) reset() {
	sock.Reset(s.client.Conn)
	s.up.reset()
}

// say sends the program its last bytes and closes, so that they arrive.
func (s *stream) say(b []byte) {
	if !s.client.say(b) {
		s.reset()
	}
}

// refuseRaw records a refusal and resets.
func (s *stream) refuseRaw(f verdict.Flow) {
	s.e.refused(s.flow(f))
	s.reset()
}

// refuseForm refuses a protocol that has no place on this port.
func (s *stream) refuseForm(reason string) {
	f := s.flow(verdict.Flow{Kind: verdict.Connect, Reason: reason})
	if !s.e.refused(f) {
		s.reset()
		return
	}
	s.refuseAs(refusal.Refusal{Status: http.StatusBadRequest, Host: s.target.Host(), Port: s.target.Port(),
		Reason: reason})
}

// refuseSilent ends a connection whose first bytes did not come.
func (s *stream) refuseSilent(err error) {
	f := s.flow(verdict.Flow{Kind: verdict.Connect, Reason: "first bytes: " + endOf(err)})
	if cause := s.conns.killed(); cause != nil {
		f.Reason = cause.Error()
	}
	f.Duration = time.Since(f.Start)
	s.e.cfg.Journal.Closed(f)
	s.reset()
}

// refuseTLS records and answers with an alert.
func (s *stream) refuseTLS(f verdict.Flow) {
	if !s.e.refused(s.flow(f)) {
		s.reset()
		return
	}
	s.say(errtext.Alert(http.StatusForbidden))
}

// refuseAs answers in the protocol that the program speaks or shows in a moment, or by
// a reset.
func (s *stream) refuseAs(r refusal.Refusal) {
	s.client.readBy(classifyRefused)
	for {
		kind, err := wire.GuessProtocol(s.client.Held())
		if errors.Is(err, wire.ErrShort) {
			if s.client.Fill(wire.MaxHead) == nil {
				continue
			}
		}
		switch {
		case err == nil && kind == wire.TLS:
			s.say(errtext.Alert(r.Status))
		case err == nil && kind == wire.HTTP:
			s.client.readBy(classifyRefused)
			req, _ := s.client.readRequest() // only for what it accepts; a bad head gets JSON
			s.say(r.Response(req))
		default:
			s.reset()
		}
		return
	}
}
