// Package acts records what Cloister's other programs do for a session or a tenant.
//
// The promise: each answer follows the record, and an error means that the act must not
// be done. It decides nothing and carries nothing out.
//
// Most readers want [Service.Tenant].
package acts

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"cloister/api"
	"cloister/audit"
	"cloister/guardian/requests"
	"cloister/guardian/sessionctx"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// Service records the acts that the guardian is sent.
type Service struct {
	Record func(context.Context, audit.Event) error
	// Session is a session that runs, by its name.
	Session func(name string) (*sessionctx.Context, error)
	Losses  *Losses
}

// maxShown bounds each text of a record, in bytes.
const maxShown = 4 << 10

// tenantKinds are what may be recorded of a tenant.
var tenantKinds = []string{
	audit.Exec, audit.TenantAdd, audit.TenantStop, audit.TenantRemove,
	audit.TenantKeyAdd, audit.TenantKeyRemove, audit.TenantFile, audit.TenantPort, audit.TenantSandbox,
	audit.TenantTemplate, audit.TenantPerson,
}

// Tenant records what cloister serve is about to do for the tenant of this instance.
func (s *Service) Tenant(r *http.Request) (any, error) {
	in, err := requests.Read[api.TenantRecord](r)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(tenantKinds, in.Kind) {
		return nil, api.BadRequest("record an act for a tenant: there is no kind %q", in.Kind)
	}
	if in.Lost {
		return s.lost(context.WithoutCancel(r.Context()), in)
	}
	var e audit.Event
	if in.Session != "" {
		of, err := s.Session(in.Session)
		if err != nil {
			return nil, err
		}
		e = of.Event()
	}
	e.Kind, e.Action, e.Resource, e.Reason = in.Kind, in.Action, termsafe.Clip(in.Resource, maxShown), in.Reason
	e.Verdict = policy.Allow.String()
	if err := s.Record(context.WithoutCancel(r.Context()), e); err != nil {
		return nil, api.Unrecorded("record an act for a tenant", err)
	}
	return struct{}{}, nil
}

// Editor records what an agent wanted of the editor that started it, or what that editor
// brings. Of the editor's powers a cloister's agent has none.
func (s *Service) Editor(r *http.Request) (any, error) {
	req, err := requests.Read[api.EditorUse](r)
	if err != nil {
		return nil, err
	}
	if req.Method == "" {
		return nil, api.BadRequest("record a use of the editor: it has no method")
	}
	of, err := s.Session(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	e := of.Event()
	e.Kind, e.Action = editorKind(req.Method), termsafe.Clip(req.Method, maxShown)
	e.Resource, e.Reason = termsafe.Clip(req.Resource, maxShown), termsafe.Clip(req.Reason, maxShown)
	e.Verdict = policy.Deny.String()
	if req.Allow {
		e.Verdict = policy.Allow.String()
	}
	if err := s.Record(context.WithoutCancel(r.Context()), e); err != nil {
		return nil, api.Unrecorded("record a use of the editor", err)
	}
	return struct{}{}, nil
}

// editorKind is what a method of the Agent Client Protocol would be a use of.
func editorKind(method string) audit.Kind {
	switch {
	case method == "mcpServers":
		return audit.MCPCall
	case strings.HasPrefix(method, "fs/"):
		return audit.FileDenied
	}
	return audit.HostexecRequest
}

// Files records what a command that joined a session did with files and programs: it has
// happened.
func (s *Service) Files(r *http.Request) (any, error) {
	list, err := requests.Read[[]api.FileEvent](r)
	if err != nil {
		return nil, err
	}
	of, err := s.Session(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		of.RecordFile(context.WithoutCancel(r.Context()), f, false)
	}
	return struct{}{}, nil
}
