package egress

import (
	"context"

	"cloister/egress/internal/dial"
	"cloister/egress/internal/postgres"
	"cloister/egress/internal/shell"
	"cloister/egress/internal/sshproxy"
	"cloister/egress/internal/stream"
)

// A speaker serves a connection to s.target, which may be made, in one protocol.
// It reads the program's first bytes off s.Client without passing any on, asks by
// s.login whether who speaks may have what it wants, and tells a refusal in
// the protocol's own words. Only then does it dial (TLS where the protocol
// upgrades to it, the server verified by s.Server.DialTLS), send what it read, and
// hand the rest to NewTunnel. What it cannot read it refuses.
type speaker func(ctx context.Context, s *stream.Stream)

// speakers are the protocols that can be spoken, by the names that an Answer has.
func (e *Engine) speakers() map[string]speaker {
	return map[string]speaker{"postgres": postgres.Serve, "ssh": e.cfg.SSH.Serve}
}

// serveSpeaker serves a connection whose Answer named a protocol.
func (s connection) serveSpeaker(ctx context.Context) {
	serve := s.engine.speakers()[s.Judged.Protocol]
	if serve == nil {
		s.RefuseForm("a rule speaks of the protocol " + dial.Quote(s.Judged.Protocol) + ", which is not known here")
		return
	}
	serve(ctx, s.Stream)
}

// A HostKey proves inside that a server is the one that was asked for, where rules
// read SSH. Its keys never leave this process.
type HostKey = shell.HostKey

// NewHostKey makes the key of a session.
func NewHostKey() (*HostKey, error) { return shell.NewHostKey() }

// RestoreHostKey is the key that HostKey.Marshal wrote.
func RestoreHostKey(text []byte) (*HostKey, error) { return shell.RestoreHostKey(text) }

// SSH is what connections that speak SSH need.
type SSH = sshproxy.Config

// An Identity logs in to a server, and is kept outside.
type Identity = sshproxy.Identity

// An IdentityRequest is a login outside that an identity is to sign.
type IdentityRequest = sshproxy.IdentityRequest
