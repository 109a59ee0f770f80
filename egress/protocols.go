package egress

import (
	"context"

	"cloister/egress/internal/dial"
	"cloister/egress/verdict"
)

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
	serve := speakers()[s.judged.protocol]
	if serve == nil {
		s.refuseForm("a rule speaks of the protocol " + dial.Quote(s.judged.protocol) + ", which is not known here")
		return
	}
	serve(s, ctx)
}

// login asks about the user who speaks.
func (s *stream) login(ctx context.Context, l verdict.Login) verdict.Verdict {
	return s.judged.ask(ctx, verdict.Query{Kind: verdict.Connect, Authority: s.target, Via: s.via, Login: &l,
		Detail: l.Detail()})
}
