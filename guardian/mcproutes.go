package guardian

import (
	"context"
	"fmt"
	"net/http"

	"cloister/api"
	"cloister/audit"
	"cloister/policy"
	"cloister/policyset/servers"
)

func (g *guardian) getMCP(http.ResponseWriter, *http.Request) (any, error) {
	return servers.List(g.policies.Current(), g.pins, api.MCPProject{})
}

func (g *guardian) getMCPServer(_ http.ResponseWriter, r *http.Request) (any, error) {
	return servers.Find(g.policies.Current(), g.pins, r.PathValue("name"), api.MCPProject{})
}

// postMCPList is the list with what a project declares besides.
func (g *guardian) postMCPList(_ http.ResponseWriter, r *http.Request) (any, error) {
	of, err := read[api.MCPProject](r)
	if err != nil {
		return nil, err
	}
	return servers.List(g.policies.Current(), g.pins, of)
}

func (g *guardian) postMCPServer(_ http.ResponseWriter, r *http.Request) (any, error) {
	of, err := read[api.MCPProject](r)
	if err != nil {
		return nil, err
	}
	return servers.Find(g.policies.Current(), g.pins, r.PathValue("name"), of)
}

// postMCPPin records, then pins.
func (g *guardian) postMCPPin(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.MCPPin](r)
	if err != nil {
		return nil, err
	}
	name, by := r.PathValue("name"), whoAnswers(r, "")
	if _, _, err := servers.Declared(g.policies.Current(), name, req.MCPProject); err != nil {
		return nil, err
	}
	action := "pin"
	if req.Forget {
		action = "forget"
	}
	if err := g.records.Append(context.WithoutCancel(r.Context()), audit.Event{
		Kind: audit.MCPCall, Action: action, Resource: name, Verdict: policy.Allow.String(),
		Reason: fmt.Sprintf("a person said so: %s; tools %q, none is all", by, req.Tools), Policy: g.policies.Current().Snapshot().Digest(),
	}); err != nil {
		return nil, api.Unrecorded("pin", err)
	}
	return servers.Pin(g.policies.Current(), g.pins, name, req, by)
}
