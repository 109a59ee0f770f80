// Package stream holds one connection of a program: the two ends that it has, what the
// Decider allowed of it, and how it is refused and recorded.
//
// Promise: a connection that policy no longer allows is reset, and each one ends in the
// record. It knows no protocol that carries requests or logins: rooms above read those.
package stream

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"cloister/egress/internal/peek"
	"cloister/egress/internal/refusal"
	"cloister/egress/verdict"
	"cloister/internal/authority"
	"cloister/internal/budget"
	"cloister/internal/reading"
)

// classifyRefused is how long a refused connection may take to show what it
// speaks, so that it can be refused in that protocol. Programs that speak
// first do so within a round trip over loopback.
const classifyRefused = 250 * time.Millisecond

// A Stream is one connection of a program, from its first byte to its end.
type Stream struct {
	Session *Session
	Target  authority.Authority // where it goes; of a proxy connection: not yet
	Via     string
	Start   time.Time
	Lease   *budget.Lease // of what is held of it to be looked at

	Conns   Sockets
	Judged  Judged
	Client  Program
	Server  Upstream
	Scratch []byte // memory for heads
	// What the bodies of requests that were read have come to.
	BodiesUp, BodiesDown atomic.Int64
}

// NewStream is a connection of a program that begins now.
func (e *Session) NewStream(c net.Conn, lease *budget.Lease) *Stream {
	s := &Stream{Session: e, Via: verdict.ViaDirect, Start: time.Now(), Lease: lease}
	s.Judged.e, s.Judged.conns = e, &s.Conns
	s.Client.Source, s.Client.handshake = peek.New(c, lease), e.Limits.Handshake
	s.Server.e, s.Server.conns, s.Server.lease = e, &s.Conns, lease
	return s
}

// EnsureDialed dials the target unless that is done, and refuses if it fails.
func (s *Stream) EnsureDialed(ctx context.Context) bool {
	if s.Server.There() && s.Server.To == s.Target {
		return true
	}
	err := s.Server.Dial(ctx, s.Target)
	if err == nil {
		return true
	}
	flow := s.DialFailed(verdict.Flow{Kind: verdict.Connect}, err)
	s.RefuseAs(refusal.Undialed(flow, err))
	return false
}

// Login asks about the user who speaks.
func (s *Stream) Login(ctx context.Context, l reading.Login) verdict.Answer {
	return s.Judged.Ask(ctx, verdict.Query{Kind: verdict.Connect, Authority: s.Target, Via: s.Via, Login: &l,
		Detail: verdict.LoginDetail(l)})
}
