package guardian

import (
	"context"
	"fmt"
	"net/http"

	"cloister/api"
	"cloister/audit"
	"cloister/internal/termsafe"
	"cloister/mcp"
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
		Reason: fmt.Sprintf("a person said so: %s; tools %q, none is all", by, req.Tools),
		Policy: g.policies.Current().Snapshot().Digest(),
	}); err != nil {
		return nil, api.Unrecorded("pin", err)
	}
	return servers.Pin(g.policies.Current(), g.pins, name, req, by)
}

// maxCommandShown bounds what the record has of a command.
const maxCommandShown = 4 << 10

// postTool decides about a call of Cloister's own MCP server.
func (g *guardian) postTool(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.ToolCall](r)
	if err != nil {
		return nil, err
	}
	call, err := mcp.ToolCall(req.Tool, []byte(req.Arguments))
	if err != nil {
		return nil, api.BadRequest("call %.60q: %v", req.Tool, err)
	}
	info, err := g.sessions.Find(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	l := g.linked(r.Context(), info.ID)
	if l == nil {
		return nil, &api.Error{
			Status: http.StatusConflict, Code: api.CodeNotFound,
			Message: fmt.Sprintf("call a tool in %q: its shim has not come back to this guardian yet", info.Name),
		}
	}
	v, err := l.tools.Own(r.Context(), call, termsafe.Clip(req.Command, maxCommandShown))
	return api.ToolVerdict{Allow: v.Allow, Rule: v.Rule, Reason: v.Reason, Hints: v.Hints}, err
}
