package guardian

import (
	"context"
	"net/http"
	"strings"

	"cloister/api"
	"cloister/audit"
	"cloister/internal/termsafe"
	"cloister/policy"
)

// postEditor records what an agent wanted of the editor that started it, or what that
// editor brings. It decides nothing: of the editor's powers a cloister's agent has none.
func (g *guardian) postEditor(_ http.ResponseWriter, r *http.Request) (any, error) {
	req, err := read[api.EditorUse](r)
	if err != nil {
		return nil, err
	}
	if req.Method == "" {
		return nil, api.BadRequest("record a use of the editor: it has no method")
	}
	l, err := g.running(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	e := l.Event()
	e.Kind, e.Action = editorKind(req.Method), termsafe.Clip(req.Method, maxCommandShown)
	e.Resource, e.Reason = termsafe.Clip(req.Resource, maxCommandShown), termsafe.Clip(req.Reason, maxCommandShown)
	e.Verdict = policy.Deny.String()
	if req.Allow {
		e.Verdict = policy.Allow.String()
	}
	if err := g.records.Append(context.WithoutCancel(r.Context()), e); err != nil {
		return nil, api.Unrecorded("record a use of the editor", err)
	}
	return struct{}{}, nil
}

// postFiles records what a command that joined a session did with files and programs: it has
// happened.
func (g *guardian) postFiles(_ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := read[[]api.FileEvent](r)
	if err != nil {
		return nil, err
	}
	l, err := g.running(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		l.RecordFile(context.WithoutCancel(r.Context()), f)
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
