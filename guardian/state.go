package guardian

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"cloister/api"
	"cloister/audit"
	"cloister/policy"
)

// stateKinds are what may be recorded of kept workspaces.
var stateKinds = []string{audit.StateCheckpoint, audit.StateRestore, audit.StateFork, audit.StateApply, audit.StateUndo,
	audit.StateMemory}

// postState records what the owner's command line is about to do to a kept workspace.
// It does not do it: an error means that it must not be done.
func (g *guardian) postState(_ http.ResponseWriter, r *http.Request) (any, error) {
	in, err := read[api.StateRecord](r)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(stateKinds, in.Kind) {
		return nil, api.BadRequest("record a change of state: there is no kind %q", in.Kind)
	}
	var out api.StateRecorded
	if in.Kind == audit.StateMemory {
		g.mu.Lock()
		l := g.live[in.Session]
		g.mu.Unlock()
		if l == nil || l.Info.Name != in.Cloister {
			return nil, api.BadRequest("keep the memory of %s: there is no such session", in.Cloister)
		}
		out.Seal, err = g.seals.SealMemory(api.Memory{Session: in.Session, Checkpoint: in.Resource, Digest: in.Digest},
			l.state.Authority, in.Key)
		if err != nil {
			return nil, err
		}
	}
	return out, g.recordState(r.Context(), in)
}

// postMemoryKey gives the key of an image that is encrypted, out of its seal, once that is on record.
func (g *guardian) postMemoryKey(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, err := read[api.Memory](r)
	if err != nil {
		return nil, err
	}
	e := audit.Event{Kind: audit.StateMemory, Action: "key", SessionID: m.Session, Resource: m.Checkpoint,
		Digest: m.Digest, Verdict: policy.Allow.String()}
	had, err := g.seals.OpenMemory(m)
	if err != nil {
		e.Verdict, e.Reason = policy.Deny.String(), "no image that this guardian kept"
	}
	if err := errors.Join(g.records.Append(context.WithoutCancel(r.Context()), e), err); err != nil {
		return nil, err
	}
	return api.MemoryKey{Key: had.MemoryKey}, nil
}

// recordState writes down a change of a kept workspace, before it is made or once it failed.
func (g *guardian) recordState(ctx context.Context, in api.StateRecord) error {
	return g.records.Append(context.WithoutCancel(ctx), audit.Event{
		Kind: in.Kind, Session: in.Cloister, Project: in.Project, Resource: in.Resource,
		Action: in.Action(), Reason: in.Reason, Digest: in.Digest, Verdict: in.Verdict(),
	})
}
