package serve

import (
	"context"
	"fmt"
	"strings"

	"cloister/serve/narrow"
)

// Network is what a request says of the network: it can only take away.
type Network = narrow.Network

// BadRequest is the error of a request that says what cannot be.
type BadRequest = narrow.BadRequest

// SetNetwork replaces what the sandbox's maker had taken away of the network while it runs;
// what was taken away of the sandboxes whose copy it is stays so. Connections that are not
// allowed any more are closed when it returns.
func (s *Sandbox) SetNetwork(ctx context.Context, n Network) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	r := s.Record()
	switch {
	case r.State == ended:
		return ErrNone
	case r.State != Running:
		return &NotRunning{r.ID}
	case r.Offline && !n.Off:
		return &BadRequest{What: "network: a sandbox that was made without the Internet has no network, " +
			"and is given none: make another"}
	}
	n.Also = r.Network.Also
	if err := n.Check(); err != nil {
		return err
	}
	if err := s.recorded(ctx, ActSandbox, "network", n.String()); err != nil {
		return err
	}
	if err := s.host.Engine.Narrow(ctx, s.host.place(s.tenant.Name), r.ID, n.Statements()); err != nil {
		return fmt.Errorf("change the network of sandbox %s: %w", r.ID, err)
	}
	s.mu.Lock()
	s.record.Network = n
	s.mu.Unlock()
	return s.save()
}

// checkEnv refuses variables that no program could have.
func checkEnv(env map[string]string) error {
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return &BadRequest{What: fmt.Sprintf("envVars: %q cannot be a variable", name)}
		}
	}
	return nil
}
