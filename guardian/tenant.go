package guardian

import (
	"context"
	"net/http"
	"slices"

	"cloister/api"
	"cloister/audit"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// tenantKinds are what may be recorded of a tenant.
var tenantKinds = []string{
	audit.Exec, audit.TenantAdd, audit.TenantStop, audit.TenantRemove,
	audit.TenantKeyAdd, audit.TenantKeyRemove, audit.TenantFile, audit.TenantPort, audit.TenantSandbox,
}

// postTenant records what cloister serve is about to do for the tenant of this instance. It
// does not do it: an error means that it must not be done.
func (g *guardian) postTenant(_ http.ResponseWriter, r *http.Request) (any, error) {
	in, err := read[api.TenantRecord](r)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(tenantKinds, in.Kind) {
		return nil, api.BadRequest("record an act for a tenant: there is no kind %q", in.Kind)
	}
	e := audit.Event{
		Kind: in.Kind, Action: in.Action, Resource: termsafe.Clip(in.Resource, maxCommandShown), Reason: in.Reason,
		Verdict: policy.Allow.String(),
	}
	if in.Session != "" {
		info, err := g.sessions.Find(in.Session)
		if err != nil {
			return nil, err
		}
		e.Session, e.SessionID, e.Project, e.Agent, e.Isolation = info.Name, info.ID, info.Project, info.Agent, info.Isolation
	}
	if err := g.records.Append(context.WithoutCancel(r.Context()), e); err != nil {
		return nil, api.Unrecorded("record an act for a tenant", err)
	}
	return struct{}{}, nil
}
