package guardian

import (
	"context"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"cloister/approval"
	"cloister/audit"
	"cloister/egress"
	"cloister/egress/verdict"
	"cloister/guardian/court"
	"cloister/guardian/sessionctx"
	"cloister/internal/termsafe"
	"cloister/policy"
	"cloister/secret/sshkey"
)

// hostKnown makes the session's host key where rules read SSH, and gives what clients
// inside are to know.
func (l *live) hostKnown(s *policy.Snapshot) (string, error) {
	if !s.Logins(policy.SSH) {
		return "", nil
	}
	key, err := egress.NewHostKey()
	if err != nil {
		return "", err
	}
	l.hostKey = key
	return key.KnownHosts(), nil
}

// knownHosts are the files in which the person's ssh looks for a server's key.
func (g *guardian) knownHosts() []string {
	dir := filepath.Join(g.o.Home, ".ssh")
	return []string{filepath.Join(dir, "known_hosts"), filepath.Join(dir, "known_hosts2"), "/etc/ssh/ssh_known_hosts"}
}

// identity opens what a rule names, on the person's behalf. Each login that it signs is
// recorded before, and asked about where the rule wants that.
func (l *live) identity(ctx context.Context, who egress.IdentityRequest) (egress.Identity, error) {
	host, err := l.g.o.resolver()()
	if err != nil {
		return egress.Identity{}, err
	}
	signers, closing, err := sshkey.Open(ctx, host, who.Identity, l.g.o.Home, l.g.o.AgentSocket)
	for i, s := range signers {
		signers[i] = sshkey.Guard(s, func(key ssh.PublicKey) error { return l.allowLogin(ctx, who, key) })
	}
	return egress.Identity{Signers: signers, Close: closing}, err
}

// allowLogin decides whether a key signs one login.
func (l *live) allowLogin(ctx context.Context, who egress.IdentityRequest, key ssh.PublicKey) error {
	r := court.Decide(ctx, &l.Context, court.Case{
		Policy: func() court.Ruling {
			r := court.Ruling{Verdict: policy.Verdict{Effect: policy.Allow}, Digest: l.Digest()}
			if who.AskFirst {
				r.Effect, r.Reason = policy.Ask, "use: ask of the identity "+who.Identity
			}
			return r
		},
		Question: func(policy.Verdict) (approval.Ask, error) { return askLogin(who, key), nil },
		Event: func(r court.Ruling) (audit.Event, bool) {
			e := l.Event()
			e.Kind, e.Action, e.Resource = audit.SecretUse, "sign", "ssh "+who.Identity
			e.Host, e.Port, e.Verdict = who.Authority.Host(), who.Authority.Port(), refusedOr(r)
			e.Reason = "a login as " + who.User + " with the key " + ssh.FingerprintSHA256(key)
			if r.Reason != "" {
				e.Reason += "; " + unsigned(r)
			}
			return e, true
		},
	})
	if r.Allowed() {
		return nil
	}
	return &verdict.Refused{Verdict: verdict.Answer{Effect: "deny", Reason: unsigned(r)}}
}

// refusedOr is the effect of a ruling, where an ask that is left is a deny.
func refusedOr(r court.Ruling) string {
	if r.Allowed() {
		return policy.Allow.String()
	}
	return policy.Deny.String()
}

// unsigned is the reason of a ruling about a signature.
func unsigned(r court.Ruling) string {
	if r.Effect == policy.Ask {
		return "nobody allowed the signature: " + r.Why
	}
	return strings.Replace(r.Reason, "a person denied it", "a person denied the signature", 1)
}

// askLogin is what a person is asked about one signature.
func askLogin(who egress.IdentityRequest, key ssh.PublicKey) approval.Ask {
	return approval.Ask{
		Kind: approval.Secret, Subject: who.User + "@" + who.Authority.String() + " " + ssh.FingerprintSHA256(key),
		Title:  "log in to " + who.Authority.String() + " as " + who.User,
		Digest: sessionctx.Nonce(), // each signature is a question of its own
		Scopes: []approval.Scope{approval.Once},
		Details: []approval.Detail{{Label: "key", Text: ssh.FingerprintSHA256(key)},
			{Label: "identity", Text: termsafe.Clip(who.Identity, 1024)}},
	}
}
