package acts

import (
	"context"
	"sync"

	"cloister/api"
	"cloister/audit"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// Losses are the sandboxes that the record has as lost. One is lost once, whoever records it how often: a server
// that was killed after it had recorded a loss does so again.
type Losses struct {
	Dir string // the record

	mu   sync.Mutex
	seen map[string]bool // nil while the record was not read
}

// actionLost is the action of a record of a loss.
const actionLost = "lost"

// lost records that a sandbox was lost, unless the record has it.
func (s *Service) lost(ctx context.Context, in api.TenantRecord) (any, error) {
	if in.Kind != audit.TenantSandbox || in.Action != actionLost || in.Session == "" {
		return nil, api.BadRequest("record a lost sandbox: it has no name, or is of another kind or action")
	}
	l := s.Losses
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.read(); err != nil {
		return nil, api.Unrecorded("record a lost sandbox", err)
	}
	e := audit.Event{
		Session: termsafe.Clip(in.Session, maxShown), Kind: in.Kind, Action: in.Action,
		Resource: termsafe.Clip(in.Resource, maxShown), Reason: in.Reason, Verdict: policy.Allow.String(),
	}
	if l.seen[e.Session] {
		return struct{}{}, nil
	}
	if err := s.Record(ctx, e); err != nil {
		return nil, api.Unrecorded("record a lost sandbox", err)
	}
	l.seen[e.Session] = true
	return struct{}{}, nil
}

// read reads which were recorded by earlier guardians. The lock is held.
func (l *Losses) read() error {
	if l.seen != nil {
		return nil
	}
	seen := map[string]bool{}
	for e, err := range audit.Read(l.Dir, audit.Filter{Kind: audit.TenantSandbox}) {
		if err != nil {
			return err
		}
		if e.Action == actionLost {
			seen[e.Session] = true
		}
	}
	l.seen = seen
	return nil
}
