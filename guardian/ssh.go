package guardian

import (
	"context"
	"path/filepath"

	"cloister/egress"
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

// identity opens what a rule names, on the person's behalf.
func (g *guardian) identity(ctx context.Context, name string) (egress.Identity, error) {
	signers, closing, err := sshkey.Open(ctx, name, g.o.Home, g.o.AgentSocket)
	return egress.Identity{Signers: signers, Close: closing}, err
}
