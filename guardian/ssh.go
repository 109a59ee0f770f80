package guardian

import (
	"context"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"cloister/approval"
	"cloister/audit"
	"cloister/egress"
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
func (l *live) identity(ctx context.Context, who egress.SSHLogin) (egress.Identity, error) {
	signers, closing, err := sshkey.Open(ctx, who.Identity, l.g.o.Home, l.g.o.AgentSocket)
	for i, s := range signers {
		signers[i] = sshkey.Guard(s, func(key ssh.PublicKey) error { return l.allowLogin(ctx, who, key) })
	}
	return egress.Identity{Signers: signers, Close: closing}, err
}

// allowLogin decides whether a key signs one login, and records it.
func (l *live) allowLogin(ctx context.Context, who egress.SSHLogin, key ssh.PublicKey) error {
	e := l.Event()
	e.Kind, e.Action, e.Resource = audit.SecretUse, "sign", "ssh "+who.Identity
	e.Host, e.Port, e.Verdict = who.Authority.Host(), who.Authority.Port(), policy.Allow.String()
	e.Reason = "a login as " + who.User + " with the key " + ssh.FingerprintSHA256(key)
	why := ""
	if who.AskFirst {
		a := l.Queue.Ask(ctx, l.askLogin(who, key))
		switch a.Outcome {
		case approval.Allowed:
			l.Tally.Asked()
			e.Reason += "; a person allowed it: " + sessionctx.Word(a)
		case approval.Denied:
			l.Tally.Asked()
			why = "a person denied the signature: " + sessionctx.Word(a)
		default:
			why = "nobody allowed the signature: " + sessionctx.End(a.Outcome)
		}
	}
	if why != "" {
		e.Verdict, e.Reason = policy.Deny.String(), e.Reason+"; "+why
	}
	if err := l.Records.Append(ctx, e); err != nil {
		why = "this could not be recorded, so it may not happen: " + err.Error()
	}
	if why != "" {
		return &egress.Refused{Verdict: egress.Verdict{Effect: "deny", Reason: why}}
	}
	return nil
}

// askLogin is what a person is asked about one signature.
func (l *live) askLogin(who egress.SSHLogin, key ssh.PublicKey) *approval.Ask {
	subject := who.User + "@" + who.Authority.String() + " " + ssh.FingerprintSHA256(key)
	return l.InName(&approval.Ask{
		Kind: approval.Secret, Subject: subject, Title: "log in to " + who.Authority.String() + " as " + who.User,
		Reason: "use: ask of the identity " + who.Identity, Policy: l.Digest(), Marks: termsafe.Marks(subject),
		Digest:  sessionctx.Nonce(), // each signature is a question of its own
		Scopes:  []approval.Scope{approval.Once},
		Details: []approval.Detail{{Label: "key", Text: ssh.FingerprintSHA256(key)}, {Label: "identity", Text: termsafe.Clip(who.Identity, 1024)}},
	})
}
