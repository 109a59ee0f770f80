package egress

import (
	"context"
	"strconv"
)

// A Login is what a connection of a protocol other than HTTP says at its
// beginning: who wants what.
type Login struct {
	Protocol string
	User     string
	Database string // of PostgreSQL
	// Of SSH: what is to run, empty where someone only logs in; and, where that is
	// git's, on which repository, and whether that is written.
	Command    string
	Repository string
	Push       bool
}

func (l Login) detail() string {
	words := "user " + strconv.QuoteToASCII(l.User)
	switch {
	case l.Protocol != "ssh":
		words += " database " + strconv.QuoteToASCII(l.Database)
	case l.Command != "":
		words += " runs " + quote(l.Command)
	}
	return words
}

// A speaker serves a connection to s.target, which may be made, in one protocol.
// It reads the program's first bytes off s.client without passing any on, asks by
// s.login whether who speaks may have what it wants, and tells a refusal in
// the protocol's own words. Only then does it dial (TLS where the protocol
// upgrades to it, the server verified by s.e.upstream), send what it read, and
// hand the rest to finishTunnel. What it cannot read it refuses.
type speaker func(s *stream, ctx context.Context)

// speakers are the protocols that can be spoken, by the names that a Verdict has.
func speakers() map[string]speaker {
	return map[string]speaker{"postgres": servePostgres, "ssh": serveSSH}
}

// serveSpeaker serves a connection whose Verdict named a protocol.
func (s *stream) serveSpeaker(ctx context.Context) {
	serve := speakers()[s.protocol]
	if serve == nil {
		s.refuseForm("a rule speaks of the protocol " + quote(s.protocol) + ", which is not known here")
		return
	}
	serve(s, ctx)
}

// login asks about who speaks.
func (s *stream) login(ctx context.Context, l Login) Verdict {
	return s.allow(ctx, Query{Kind: Connect, Authority: s.target, Via: s.via, Login: &l, Detail: l.detail()})
}
